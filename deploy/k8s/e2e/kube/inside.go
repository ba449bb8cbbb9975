//go:build linux

package kube

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// insideEnv marks the process inside of the namespaces.
const insideEnv = "QUORATE_TEST_INSIDE"

// Inside runs a test in network, mount and process namespaces of its own: it starts the test's program
// once more there, for this test alone. Where namespaces cannot be made, it skips the test with the reason. Tests
// that use it may not be subtests.
func Inside(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if os.Getenv(insideEnv) == t.Name() {
		err := errors.Join(
			syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
			syscall.Mount("proc", "/proc", "proc", 0, ""),
		)
		if err != nil {
			t.Fatal(err)
		}
		test(t)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("makes network namespaces, which takes root: not run by another user")
	}
	for _, tool := range []string{"ip", "nft", "mount"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the nodes need a program that is not here: %v", err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if deadline, has := t.Deadline(); has {
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1", "-test.timeout=0")
	cmd.Env = append(os.Environ(), insideEnv+"="+t.Name())
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// As the first of its process namespace it takes all others with it when it ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL,
	}
	err = cmd.Run()
	if errors.Is(err, syscall.EPERM) {
		t.Skipf("namespaces cannot be made here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
