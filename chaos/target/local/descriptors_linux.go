package local

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// noDescriptors returns why descriptors cannot be bounded.
func noDescriptors() error { return nil }

// Descriptors implements target.Descriptors: it moves the soft limit of the process, and leaves the
// hard one.
func (c *Cluster) Descriptors(_ context.Context, node string, spare int) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	pid, running := n.Running()
	if !running {
		return fmt.Errorf("local: node %s does not run: it has no descriptors", node)
	}
	var limit syscall.Rlimit
	if err := prlimit(pid, nil, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	if spare >= 0 {
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			return fmt.Errorf("local: %w", err)
		}
		limit.Cur = uint64(len(open) + spare)
	}
	return prlimit(pid, &limit, nil)
}

// prlimit sets, or gets, the limit of a process's descriptors.
func prlimit(pid int, set, get *syscall.Rlimit) error {
	_, _, e := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_NOFILE,
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), 0, 0)
	if e != 0 {
		return fmt.Errorf("local: limit of descriptors of process %d: %w", pid, e)
	}
	return nil
}
