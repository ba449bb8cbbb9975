package netns

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// insideEnv marks a process so that it knows that it was started by Again.
const insideEnv = "QUORATE_CHAOS_INSIDE"

// stopTimeout is how long a program that runs again may take to clean up.
const stopTimeout = 30 * time.Second

// Possible returns why this machine cannot have such a cluster; nil: it can, as far as can be
// known without trying.
func Possible() error {
	if os.Getuid() != 0 {
		return errElsewhere
	}
	for _, program := range []string{"ip", "nsenter", "mount", "umount", "mkfs.ext4"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("netns: %w", err)
		}
	}
	if _, err := os.Stat(tunDevice); err != nil {
		return fmt.Errorf("netns: %w: the kernel has no TUN devices", err)
	}
	return nil
}

// Inside reports whether this process was started by Again.
func Inside() bool { return os.Getenv(insideEnv) != "" }

// Again runs this program again, with these arguments and this process's output, in network and
// mount namespaces of its own, and waits for its end. When ctx ends it is interrupted.
func Again(ctx context.Context, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("netns: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopTimeout
	// With Unshareflags, unlike Cloneflags, mounts are private to the child.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("netns: %w", err)
	}
	return nil
}
