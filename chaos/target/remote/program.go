package remote

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// DeadMan is how long a fault may last at the most in a cluster that is already there: after it the
// fault is healed even if this program was killed. No fault lasts as long.
const DeadMan = time.Minute

// Run runs a program to its end, and returns what it printed. The error has the command line and the
// end of what the program complained about.
func Run(ctx context.Context, input string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, complaint bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &complaint
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's interrupt is for this program alone
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(complaint.Bytes()))
	}
	return out.String(), nil
}

// Later runs a program after some whole seconds, even if this one ends, unless cancel is called
// before.
func Later(after time.Duration, name string, args ...string) (cancel func(), err error) {
	line := append([]string{"-c", `sleep "$0" && exec "$@"`, strconv.Itoa(int(after.Seconds())), name}, args...)
	cmd := exec.Command("sh", line...) //nolint:noctx // it outlives this program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("remote: schedule the end of a fault: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // a program that failed could not be reported to anybody
		close(ended)
	}()
	return func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the shell and its sleep
		<-ended
	}, nil
}
