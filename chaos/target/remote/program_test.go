package remote

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// killedEnv makes this program one that schedules something and is killed.
const killedEnv = "QUORATE_TEST_KILLED"

func TestMain(m *testing.M) {
	if file := os.Getenv(killedEnv); file != "" {
		if _, err := Later(time.Second, "touch", file); err != nil {
			os.Exit(1)
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	os.Exit(m.Run())
}

// What was scheduled happens although the program that scheduled it was killed.
func TestLaterOutlives(t *testing.T) {
	file := filepath.Join(t.TempDir(), "healed")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), killedEnv+"="+file)
	if err := cmd.Run(); err == nil || cmd.ProcessState.Exited() {
		t.Fatalf("the program was not killed: %v", err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("what was scheduled did not happen")
		}
	}
}

// What was taken back does not happen, and leaves no process.
func TestLaterIsTakenBack(t *testing.T) {
	file := filepath.Join(t.TempDir(), "healed")
	taken, err := Later(3*time.Second, "touch", file)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if _, err := Later(4*time.Second, "touch", other); err != nil {
		t.Fatal(err)
	}
	taken()
	for {
		if _, err := os.Stat(other); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("what was taken back has happened")
	}
}

// The error of a program has what it complained about.
func TestRunReports(t *testing.T) {
	out, err := Run(t.Context(), "in", "sh", "-c", "cat; echo no such thing >&2; exit 3")
	if err == nil || !strings.Contains(err.Error(), "no such thing") || !strings.Contains(err.Error(), "exit status 3") || out != "in" {
		t.Errorf("%q, %v", out, err)
	}
}
