package command

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// watching is a watch of the world's cluster that has printed its first pauses.
type watching struct {
	out   lockedBuffer
	dir   string
	ended chan error
}

func (w *world) watch(ctx context.Context) *watching {
	w.Helper()
	x := &watching{ended: make(chan error, 1)}
	o := w.existingOptions("", &x.out)
	o.Length = 5 * time.Minute
	x.dir = o.Out
	go func() { x.ended <- Watch(ctx, o) }()
	x.prints(w.T, "all together ")
	return x
}

// prints waits until the watch has printed what a regular expression matches.
func (x *watching) prints(t *testing.T, want string) {
	t.Helper()
	matches := regexp.MustCompile(want).MatchString
	for deadline := time.Now().Add(time.Minute); !matches(x.out.String()); {
		select {
		case err := <-x.ended:
			t.Fatalf("it ended before it printed %q: %v\n%s", want, err, &x.out)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("it did not print %q:\n%s", want, &x.out)
		}
	}
}

// A watch sees what others do to the cluster, all of it, even that no node is there for longer than clients wait
// for one; it continues until it is stopped, and judges then.
func TestWatch(t *testing.T) {
	w := newWorld(t, nil)
	x := w.watch(t.Context())
	w.nodes.Cluster.Kill()
	x.prints(t, `all together (8|9|\d\d+)\.`) // seconds in which nobody was confirmed anything
	if err := w.nodes.Cluster.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := strings.Count(x.out.String(), "\nat ")
	for deadline := time.Now().Add(time.Minute); strings.Count(x.out.String(), "\nat ") < before+5 && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	if err := Stop(x.dir); err != nil {
		t.Fatal(err)
	}
	if err := <-x.ended; err != nil {
		t.Errorf("%v\n%s", err, &x.out)
	}
	for _, want := range []string{"history is valid", "longest pauses: all together "} {
		if !strings.Contains(x.out.String(), want) {
			t.Errorf("it did not print %q:\n%s", want, &x.out)
		}
	}
	w.untouched()
}

// SIGTERM ends the publishing and not the judging, as a pod is deleted for example.
func TestWatchInterrupted(t *testing.T) {
	w := newWorld(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	x := w.watch(ctx)
	cancel()
	if err := <-x.ended; err != nil || !strings.Contains(x.out.String(), "history is valid") {
		t.Errorf("%v\n%s", err, &x.out)
	}
	w.untouched()
}

// A watch needs a cluster that is there already, and a stop a watch.
func TestWatchRefused(t *testing.T) {
	var out lockedBuffer
	if err := Watch(t.Context(), Options{Target: processes, Output: &out}); code(t, err) != ExitUsage || !strings.Contains(err.Error(), "use chaos run") {
		t.Errorf("a watch of a cluster that would be made: %v", err)
	}
	dir := t.TempDir()
	if err := Stop(dir); err == nil || !strings.Contains(err.Error(), "no chaos watch goes on in "+dir) {
		t.Errorf("a stop where there is no watch: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, stopFile)); err == nil {
		t.Error("a stop where there is no watch leaves a file")
	}
}
