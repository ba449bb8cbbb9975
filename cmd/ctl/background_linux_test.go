package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A backup runs with all its threads at a low priority, or at that which it has if that is lower. Other commands keep
// theirs.
func TestInBackground(t *testing.T) {
	t.Parallel()
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	usual := 20 - own
	for _, row := range []struct {
		command []string
		nice    int
	}{
		{[]string{"backup", "create", filepath.Join(t.TempDir(), "b")}, max(usual, backgroundNice)},
		{[]string{"queue", "list"}, usual},
	} {
		args := append([]string{"-a", "127.0.0.1:1", "--timeout", "1m"}, row.command...)
		cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
		cmd.Env = append(os.Environ(), asProgram+"=1")
		errs, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := errs.Read(make([]byte, 1)); err != nil { // it says that it waits for a node
			t.Fatal(err)
		}
		deadline := time.Now().Add(30 * time.Second)
		for all := ""; ; {
			if all = nices(t, cmd.Process.Pid); all == fmt.Sprint(map[int]bool{row.nice: true}) {
				break
			}
			if time.Now().After(deadline) {
				t.Errorf("%v: nice values %s, want %d", row.command, all, row.nice)
				break
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}
}

// nices returns the nice values of a process's threads.
func nices(t *testing.T, pid int) string {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("%v, %v", threads, err)
	}
	all := map[int]bool{}
	for _, path := range threads {
		var id int
		if _, err := fmt.Sscan(filepath.Base(path), &id); err != nil {
			t.Fatal(err)
		}
		if now, err := unix.Getpriority(unix.PRIO_PROCESS, id); err == nil {
			all[20-now] = true
		}
	}
	return fmt.Sprint(all)
}
