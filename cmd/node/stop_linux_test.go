package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/cmd/node/serve"
)

// fillPipe writes to a pipe until it takes no more. The writer of the node is another one, and still blocks.
func fillPipe(t *testing.T, w *os.File) {
	t.Helper()
	mine, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", w.Fd()), os.O_WRONLY|syscall.O_NONBLOCK, 0)
	must(t, err)
	defer func() { _ = mine.Close() }()
	for _, size := range []int{4096, 1} { // a page at a time at first: the kernel counts pages
		for err = error(nil); err == nil; {
			must(t, mine.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
			_, err = mine.Write(make([]byte, size))
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
}

// A node whose log nobody reads any longer ends in time when it is asked to stop, with the exit code that says so:
// whoever supervises it would kill it otherwise.
func TestStopWithLogThatNobodyReads(t *testing.T) {
	t.Parallel()
	binary := build(t)
	c, err := chaos.NewCluster(chaos.ClusterConfig{Binary: binary, Dir: t.TempDir(), Nodes: 1, Settings: "timeouts:\n  drain: 1s\n"})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	r, w, err := os.Pipe()
	must(t, err)
	defer func() { _, _ = r.Close(), w.Close() }()
	node := exec.CommandContext(ctx, binary, "node", "--config", filepath.Join(c.Nodes[0].Dir, "node.yaml"))
	node.Stderr = w
	must(t, node.Start())
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, r)
		read <- err
	}()
	for {
		if _, status, err := get(ctx, t, "http://"+c.Nodes[0].HTTP+"/health/ready"); err == nil && status == http.StatusOK {
			break
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		}
	}
	must(t, r.SetReadDeadline(time.Unix(1, 0)))
	if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	fillPipe(t, w)
	must(t, node.Process.Signal(syscall.SIGTERM))
	_ = node.Wait() // the state has how it ended
	if code := node.ProcessState.ExitCode(); code != serve.ExitStopHangs {
		t.Errorf("the node ended with %v, want exit code %d", node.ProcessState, serve.ExitStopHangs)
	}
}
