package local

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/quorate/quorate/chaos/target"
)

// Of linux/seccomp.h, linux/audit.h and linux/prctl.h.
const (
	seccompCall       = 317
	setModeFilter     = 1
	newListener       = 1 << 3
	waitKillable      = 1 << 5 // signals of the Go runtime do not interrupt a call that waits for its answer
	returnNotify      = 0x7fc00000
	returnAllow       = 0x7fff0000
	archAMD64         = 0xc000003e
	setNoNewPrivs     = 38
	notifyReceive     = 0xc0502100
	notifySend        = 0xc0182101
	answerContinue    = 1
	pollIn, pollHang  = 1, 16
	offNumber, offISA = 0, 4 // in struct seccomp_data
)

// notification is struct seccomp_notif: a thread has called.
type notification struct {
	id         uint64
	pid, flags uint32
	number     int32
	isa        uint32
	ip         uint64
	args       [6]uint64
}

// seccompResponse is struct seccomp_notif_resp.
type seccompResponse struct {
	id    uint64
	value int64
	err   int32
	flags uint32
}

// tamperers are those of all nodes.
type tamperers struct{ all map[string]*tamperer }

// tamperer answers, or lets through, what a node's process asks of its log's files: each write at an
// offset and each sync stops in the kernel until it has decided.
type tamperer struct {
	dir string // of the log

	mu       sync.Mutex
	how      target.Tampering
	left     int // calls that are still hit, if how.Times is set
	tampered uint64
	err      error // of the kernel; the process's calls fail from then on
}

// noTampering returns why calls cannot be tampered with: nothing, as far as is known without trying.
func noTampering() error { return nil }

// enlist prepares a node whose log is in dir.
func (t *tamperers) enlist(node, dir string) {
	if t.all == nil {
		t.all = map[string]*tamperer{}
	}
	t.all[node] = &tamperer{dir: dir}
}

// attach lets this thread, and the processes that it will start, ask before each write and sync.
func (t *tamperers) attach(node string) error {
	listener, err := filterThread()
	if err != nil {
		return err
	}
	go t.all[node].serve(listener)
	return nil
}

// filterThread installs the filter. The descriptor that it returns is closed with the processes' exec.
func filterThread() (int, error) {
	type instruction struct {
		code   uint16
		jt, jf uint8
		k      uint32
	}
	const load, equal, give = 0x20, 0x15, 0x06
	code := []instruction{
		{load, 0, 0, offISA},
		{equal, 0, 6, archAMD64},
		{load, 0, 0, offNumber},
		{equal, 3, 0, syscall.SYS_FSYNC},
		{equal, 2, 0, syscall.SYS_FDATASYNC},
		{equal, 1, 0, syscall.SYS_PWRITEV},
		{equal, 0, 1, syscall.SYS_PWRITE64},
		{give, 0, 0, returnNotify},
		{give, 0, 0, returnAllow},
	}
	program := struct {
		length uint16
		first  *instruction
	}{uint16(len(code)), &code[0]}
	if _, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, setNoNewPrivs, 1, 0, 0, 0, 0); e != 0 { // else it needs root
		return 0, fmt.Errorf("local: prctl: %w", e)
	}
	fd, _, e := syscall.RawSyscall(seccompCall, setModeFilter, newListener|waitKillable, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(code)
	if e != 0 {
		return 0, fmt.Errorf("local: seccomp, of Linux 5.19 or later: %w", e)
	}
	return int(fd), nil
}

// serve answers calls until no process is left that could make one.
func (t *tamperer) serve(listener int) {
	defer syscall.Close(listener) //nolint:errcheck // nothing was written
	for {
		ready := struct {
			fd              int32
			events, revents int16
		}{int32(listener), pollIn, 0}
		_, _, e := syscall.Syscall(syscall.SYS_POLL, uintptr(unsafe.Pointer(&ready)), 1, ^uintptr(0))
		switch {
		case e == syscall.EINTR:
			continue
		case e != 0:
			t.fail(e)
			return
		case ready.revents&pollIn == 0: // all hung up
			return
		}
		var n notification
		_, _, e = syscall.Syscall(syscall.SYS_IOCTL, uintptr(listener), notifyReceive, uintptr(unsafe.Pointer(&n)))
		switch {
		case e == syscall.ENOENT || e == syscall.EINTR: // the caller is gone
			continue
		case e != 0:
			t.fail(e)
			return
		}
		how, hit := t.meant(&n)
		switch {
		case hit && how.Delay > 0:
			go func() {
				time.Sleep(how.Delay) // what is asked for: the caller waits as long
				t.reply(listener, seccompResponse{id: n.id, flags: answerContinue})
			}()
		case hit && how.Tear > 0:
			t.fail(t.tear(&n, how.Tear))
		case hit:
			t.reply(listener, seccompResponse{id: n.id, err: -int32(syscall.EIO)})
		default:
			t.reply(listener, seccompResponse{id: n.id, flags: answerContinue})
		}
	}
}

// reply answers a call. One whose caller is gone needs no answer.
func (t *tamperer) reply(listener int, a seccompResponse) {
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(listener), notifySend, uintptr(unsafe.Pointer(&a))); e != 0 && e != syscall.ENOENT {
		t.fail(e)
	}
}

// fail keeps the first error for Tampered.
func (t *tamperer) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil && err != nil {
		t.err = fmt.Errorf("local: tamper with calls: %w", err)
	}
}

// meant reports whether the call is hit, and counts it.
func (t *tamperer) meant(n *notification) (target.Tampering, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	writes := n.number == syscall.SYS_PWRITE64 || n.number == syscall.SYS_PWRITEV
	if t.how == (target.Tampering{}) || t.how.Times > 0 && t.left == 0 || writes != (t.how.Call == target.Write) {
		return t.how, false
	}
	file, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", n.pid, int32(n.args[0])))
	if err != nil || filepath.Dir(file) != t.dir {
		return t.how, false
	}
	if t.how.Tear > 0 { // zeros make room for records, and are none
		content, err := n.content()
		if err != nil || len(bytes.TrimLeft(content, "\x00")) < 2 {
			return t.how, false
		}
	}
	t.left--
	t.tampered++
	return t.how, true
}

// content returns what the caller wants to write.
func (n *notification) content() ([]byte, error) {
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", n.pid))
	if err != nil {
		return nil, err
	}
	defer memory.Close() //nolint:errcheck // nothing was written
	parts := [][2]uint64{{n.args[1], n.args[2]}}
	if n.number == syscall.SYS_PWRITEV {
		if parts, err = vector(memory, n.args[1], n.args[2]); err != nil {
			return nil, err
		}
	}
	var content []byte
	for _, p := range parts {
		at := len(content)
		content = append(content, make([]byte, p[1])...)
		if _, err := memory.ReadAt(content[at:], int64(p[0])); err != nil {
			return nil, err
		}
	}
	return content, nil
}

// vector reads so many struct iovec at an address: the address and the length of each part.
func vector(memory io.ReaderAt, at, count uint64) ([][2]uint64, error) {
	const size = 16
	raw := make([]byte, size*count)
	if _, err := memory.ReadAt(raw, int64(at)); err != nil {
		return nil, err
	}
	parts := make([][2]uint64, count)
	for i := range parts {
		parts[i] = [2]uint64{binary.LittleEndian.Uint64(raw[size*i:]), binary.LittleEndian.Uint64(raw[size*i+8:])}
	}
	return parts, nil
}

// tear writes a part of what the caller wants to write, in the caller's place, and ends its process,
// which is never answered.
func (t *tamperer) tear(n *notification, share float64) error {
	content, err := n.content()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", n.pid, int32(n.args[0])), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	used := len(bytes.TrimRight(content, "\x00")) // zeros behind the records are there already
	_, err = f.WriteAt(content[:1+int(share*float64(used-1))], int64(n.args[3]))
	return errors.Join(err, f.Close(), syscall.Kill(int(n.pid), syscall.SIGKILL))
}

// Tamper implements target.Calls.
func (c *Cluster) Tamper(_ context.Context, node string, how target.Tampering) error {
	t := c.tamperers.all[node]
	if t == nil {
		return fmt.Errorf("local: there is no node %q whose calls can be tampered with", node)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.how, t.left = how, how.Times
	return nil
}

// Tampered implements target.Calls.
func (c *Cluster) Tampered(_ context.Context, node string) (uint64, error) {
	t := c.tamperers.all[node]
	if t == nil {
		return 0, fmt.Errorf("local: there is no node %q whose calls can be tampered with", node)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tampered, t.err
}
