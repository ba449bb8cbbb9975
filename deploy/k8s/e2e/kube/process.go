package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// polling is how often a condition is checked.
	polling = 50 * time.Millisecond
	// stopTime is what a program has to end in peace.
	stopTime = 10 * time.Second
	// lastWords is how much of a program's log an error quotes, in bytes.
	lastWords = 2000
)

// process is a program that runs until it is stopped.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it is over
	err  error         // how, once it is over
}

// startProcess starts a program whose output goes to a file of its name.
func startProcess(dir, path string, args ...string) (*process, error) {
	return startCommand(dir, filepath.Base(path), exec.CommandContext(context.Background(), path, args...))
}

// startCommand starts a program by another name, which its log has too.
func startCommand(dir, name string, cmd *exec.Cmd) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), cmd: cmd, done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the process has its own handle
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = log, log, dir
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w: build it with make kube", p.name, err)
	}
	go func() {
		if p.err = p.cmd.Wait(); p.err == nil {
			p.err = errors.New("exit status 0")
		}
		close(p.done)
	}()
	return p, nil
}

// ended returns an error with the program's last words if it is over.
func (p *process) ended() error {
	select {
	case <-p.done:
		text, err := os.ReadFile(p.log)
		if err != nil {
			text = []byte(err.Error())
		}
		return fmt.Errorf("%s has ended (%w); its log ends:\n%s", p.name, p.err, text[max(0, len(text)-lastWords):])
	default:
		return nil
	}
}

// stop ends the program and returns when it is over.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.done:
	case <-time.After(stopTime):
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.done
	}
}

// await polls a condition until it holds, the context ends, or the program, if there is one, does.
func await(ctx context.Context, what string, of *process, holds func(context.Context) error) error {
	for {
		err := holds(ctx)
		if err == nil {
			return nil
		}
		if of != nil {
			if ended := of.ended(); ended != nil {
				return ended
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited for %s: %w: %w", what, ctx.Err(), err)
		case <-time.After(polling):
		}
	}
}

// run runs a program to its end and returns what it printed.
func run(ctx context.Context, path string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return text, fmt.Errorf("%s %s: %w: %s", filepath.Base(path), strings.Join(args, " "), err, text)
	}
	return text, nil
}

// stopAll stops programs, the last one first.
func stopAll(all []*process) {
	for i := len(all) - 1; i >= 0; i-- {
		all[i].stop()
	}
}
