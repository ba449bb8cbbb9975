package peers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a server's process, in a process group of its own.
type process struct {
	name string
	pid  int
	log  string
	gone chan struct{}
}

// run starts a program and writes its output to a file in dir. The kernel ends the program with
// this process.
func run(dir, name string, env []string, program string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".out"), gone: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, args...) //nolint:noctx // its life is end's, not a context's
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel ties the child to this thread
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // it is killed
			close(p.gone)
		}
		_ = out.Close()
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// end kills the process, its group and its other descendants.
func (p *process) end() {
	for _, pid := range descendants([]int{p.pid}) {
		if pid != p.pid {
			_ = syscall.Kill(pid, syscall.SIGKILL) // gone already
		}
	}
	_ = syscall.Kill(-p.pid, syscall.SIGKILL) // gone already
	<-p.gone
}

// ended reports whether the process has ended; it does not wait.
func (p *process) ended() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// tail returns the end of the process's output.
func (p *process) tail() string {
	const most = 600
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// awaitPort waits until something listens at an address or the process ends.
func (p *process) awaitPort(ctx context.Context, address string) error {
	var d net.Dialer
	return until(ctx, func() error {
		if p.ended() {
			return final{fmt.Errorf("%s ended: %s", p.name, p.tail())}
		}
		c, err := d.DialContext(ctx, "tcp", address)
		if err == nil {
			err = c.Close()
		}
		return err
	})
}

// final marks an error that waiting cannot fix.
type final struct{ error }

// until calls check until it returns nil or a final error, or ctx ends.
func until(ctx context.Context, check func() error) error {
	for {
		err := check()
		var f final
		if err == nil || errors.As(err, &f) {
			return err
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return fmt.Errorf("%w; last: %w", context.Cause(ctx), err)
		}
	}
}

// ports returns free ports on loopback.
func ports(n int) ([]int, error) {
	var out []int
	var open []net.Listener
	defer func() {
		for _, l := range open {
			_ = l.Close() // it was never used
		}
	}()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // on loopback, at once
		if err != nil {
			return nil, err
		}
		open = append(open, l)
		address, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			return nil, fmt.Errorf("a listener at %s", l.Addr())
		}
		out = append(out, address.Port)
	}
	return out, nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// stat is the part of /proc/PID/stat that the package needs.
type stat struct {
	parent int
	ticks  int64 // user and system time, with children that have ended
}

const clockTicks = 100 // per second in /proc; fixed on Linux

// parseStat parses a line of /proc/PID/stat; the name in parentheses may have spaces.
func parseStat(line string) (stat, error) {
	fields := strings.Fields(line[strings.LastIndex(line, ")")+1:])
	const first = 3 // the number of the first field behind the name
	const parent, user, lastOfTimes = 4 - first, 14 - first, 17 - first
	if len(fields) <= lastOfTimes {
		return stat{}, fmt.Errorf("%q is not the form of /proc/PID/stat", line)
	}
	ppid, err := strconv.Atoi(fields[parent])
	s := stat{parent: ppid}
	for _, f := range fields[user : lastOfTimes+1] {
		n, e := strconv.ParseInt(f, 10, 64)
		s.ticks, err = s.ticks+n, errors.Join(err, e)
	}
	return s, err
}

// readStat reads the CPU times of a process from /proc.
func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	return parseStat(string(text))
}

// descendants returns processes and all of their descendants that still run.
func descendants(roots []int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return roots
	}
	children := map[int][]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err == nil {
			children[s.parent] = append(children[s.parent], pid)
		}
	}
	var out []int
	for next := roots; len(next) > 0; {
		pid := next[0]
		out = append(out, pid)
		next = append(next[1:len(next):len(next)], children[pid]...)
	}
	return out
}

// cpu returns the processor time that processes and their descendants have used.
func cpu(roots []int) (time.Duration, error) {
	var ticks int64
	for _, pid := range descendants(roots) {
		s, err := readStat(pid)
		switch {
		case err == nil:
			ticks += s.ticks
		case isRoot(roots, pid):
			return 0, fmt.Errorf("a server is gone: %w", err)
		}
	}
	return time.Duration(ticks) * time.Second / clockTicks, nil
}

// isRoot reports whether a process is one of those whose children count too.
func isRoot(roots []int, pid int) bool {
	for _, r := range roots {
		if r == pid {
			return true
		}
	}
	return false
}
