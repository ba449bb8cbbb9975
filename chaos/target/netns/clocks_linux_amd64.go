package netns

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/internal/wait"
)

// The kernel maps functions into every process that read the clocks without a system call (vDSO),
// and static Go programs ask nothing else. A node's copy is rewritten: where clock_gettime begins
// stands a jump to what gettimeofday was, which Go does not call, and that asks the kernel and adds
// seconds to the wall clock alone.
const (
	clockSymbol = "__vdso_clock_gettime"
	spareSymbol = "__vdso_gettimeofday"
)

// stepped returns the code that shifts the wall clock by whole seconds.
func stepped(seconds int32) []byte {
	code := []byte{
		0xb8, 0xe4, 0x00, 0x00, 0x00, // mov $228 (clock_gettime), %eax
		0x0f, 0x05, // syscall
		0x85, 0xff, // test %edi, %edi: CLOCK_REALTIME is 0
		0x75, 0x07, // jne over the addition
		0x48, 0x81, 0x06, // addq $seconds, (%rsi): tv_sec
	}
	code = binary.LittleEndian.AppendUint32(code, uint32(seconds))
	return append(code, 0xc3) // ret
}

// noClocks returns why clocks cannot be stepped.
func noClocks() error { return nil }

// Step implements target.Clocks, by whole seconds. It is over when the process ends.
func (c *Cluster) Step(ctx context.Context, node string, d time.Duration) error {
	n := c.Node(node)
	if n == nil {
		return fmt.Errorf("netns: there is no node %q", node)
	}
	pid, running := n.Running()
	if !running {
		return fmt.Errorf("netns: node %s does not run: it has no clock to step", node)
	}
	p, err := openVDSO(pid)
	if err != nil {
		return err
	}
	defer p.memory.Close() //nolint:errcheck // each write was checked
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	for {
		if err := n.Pause(); err != nil {
			return fmt.Errorf("netns: %w", err)
		}
		within, err := p.stopped(ctx)
		if err == nil && !within {
			err = p.step(int32(d / time.Second))
		}
		if err := errors.Join(err, n.Resume()); err != nil || !within {
			return err
		}
		if wait.For(ctx, letGo) != nil { // a thread reads the clock just now: it may go on first
			return fmt.Errorf("netns: node %s reads its clock all the time", node)
		}
	}
}

const (
	stepTimeout = 10 * time.Second
	// stopEvery is the interval between checks whether all threads have stopped, which on a busy machine takes until
	// each has had a processor.
	stopEvery = time.Millisecond
	letGo     = 5 * time.Millisecond
)

// stopped waits until all threads of a process that was sent SIGSTOP have stopped, and reports whether one of
// them stands within the vDSO.
func (v *vdso) stopped(ctx context.Context) (within bool, err error) {
	for {
		running, within, err := v.threads()
		if err != nil || !running {
			return within, err
		}
		if wait.For(ctx, stopEvery) != nil {
			return true, nil //nolint:nilerr // it may be within: the caller gives up
		}
	}
}

var _ target.Clocks = (*Cluster)(nil)

// vdso is a process's copy.
type vdso struct {
	pid          int
	memory       *os.File
	begin, end   uint64
	clock, spare elf.Symbol
}

// openVDSO finds the vDSO of a process. Its memory is to be closed.
func openVDSO(pid int) (*vdso, error) {
	v := &vdso{pid: pid}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, fmt.Errorf("netns: %w", err)
	}
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "[vdso]") {
			_, err = fmt.Sscanf(line, "%x-%x", &v.begin, &v.end)
		}
	}
	if err != nil || v.begin == 0 {
		return nil, fmt.Errorf("netns: process %d has no vDSO: %w", pid, err)
	}
	if v.memory, err = os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0); err != nil {
		return nil, fmt.Errorf("netns: %w", err)
	}
	if err := v.symbols(); err != nil {
		return nil, errors.Join(err, v.memory.Close())
	}
	return v, nil
}

// symbols finds the two functions.
func (v *vdso) symbols() error {
	image := make([]byte, v.end-v.begin)
	if _, err := v.memory.ReadAt(image, int64(v.begin)); err != nil {
		return fmt.Errorf("netns: %w", err)
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return fmt.Errorf("netns: vDSO: %w", err)
	}
	all, err := file.DynamicSymbols()
	if err != nil {
		return fmt.Errorf("netns: vDSO: %w", err)
	}
	for _, s := range all {
		switch s.Name {
		case clockSymbol:
			v.clock = s
		case spareSymbol:
			v.spare = s
		}
	}
	if v.clock.Value == 0 || v.spare.Size < uint64(len(stepped(0))) {
		return errors.New("netns: the kernel's vDSO is not as expected")
	}
	return nil
}

// threads reports whether a thread of the process still runs, else whether one stands within the vDSO.
func (v *vdso) threads() (running, within bool, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", v.pid))
	if err != nil {
		return false, false, fmt.Errorf("netns: %w", err)
	}
	for _, name := range threads {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text))
		at, err := strconv.ParseUint(fields[len(fields)-1], 0, 64)
		if err != nil {
			return true, false, nil //nolint:nilerr // its state is the word running
		}
		if at >= v.begin && at < v.end {
			within = true
		}
	}
	return false, within, nil
}

// step writes the code. The process is stopped, so the order does not matter.
func (v *vdso) step(seconds int32) error {
	jump := binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(int32(v.spare.Value)-int32(v.clock.Value)-5))
	for at, code := range map[uint64][]byte{v.begin + v.spare.Value: stepped(seconds), v.begin + v.clock.Value: jump} {
		if _, err := v.memory.WriteAt(code, int64(at)); err != nil {
			return fmt.Errorf("netns: vDSO: %w", err)
		}
	}
	return nil
}
