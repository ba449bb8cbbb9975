package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quorate/quorate/chaos/fault"
	"github.com/quorate/quorate/chaos/run"
	"github.com/quorate/quorate/internal/wait"
)

const (
	// stopFile in the directory of a watch ends its publishing.
	stopFile = "stop"
	// stopEvery is how often it is looked for.
	stopEvery = 200 * time.Millisecond
)

// watch is a run without faults of its own, until somebody ends it.
type watch struct {
	asked   context.Context // ends when the program is to stop
	write   func(format string, args ...any)
	classes []string // of Pauses, in the order in which they came
	longest map[string]time.Duration
}

// Watch publishes and consumes on a cluster that is there already until ctx ends, Stop is called for its directory, or
// Length has passed; then it drains the queues, prints the longest pauses of publishers, and judges what clients saw.
// Whatever happens to the cluster meanwhile counts as one fault. The error is a *Failure.
func Watch(ctx context.Context, o Options) error {
	o.Target = cmp.Or(o.Target, addresses)
	p, err := o.plan()
	if err == nil && !p.guarded() {
		err = fmt.Errorf("target %s makes a cluster, to which nothing would happen: watch one that is there already, or use chaos run", p.Target)
	}
	if err != nil {
		return &Failure{ExitUsage, err}
	}
	p.Steps = []fault.Step{}
	o.watch = &watch{asked: ctx, write: o.print, longest: map[string]time.Duration{}}
	err = o.once(context.WithoutCancel(ctx), p)
	if pauses := o.watch.text(); pauses != "" {
		o.print("longest pauses:%s\n", pauses)
	}
	return err
}

// Stop ends the publishing of the watch that leaves its history in the directory. It may be called at any time after
// the watch has made the directory, and more than once.
func Stop(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, planFile)); err != nil {
		return fmt.Errorf("no chaos watch goes on in %s: name its --out: %w", dir, err)
	}
	return os.WriteFile(filepath.Join(dir, stopFile), nil, 0o640)
}

// stopped returns when the watch is to end.
func (w *watch) stopped(ctx context.Context, dir string) {
	there := func() bool {
		_, err := os.Stat(filepath.Join(dir, stopFile))
		return !errors.Is(err, os.ErrNotExist)
	}
	for wait.For(ctx, stopEvery) == nil && w.asked.Err() == nil && !there() {
	}
}

// progress prints a line that people and scripts read: names and figures in turn, times in seconds.
func (w *watch) progress(p run.Progress) {
	var line strings.Builder
	for _, x := range p.Pauses {
		if _, is := w.longest[x.Class]; !is {
			w.classes = append(w.classes, x.Class)
		}
		w.longest[x.Class] = max(w.longest[x.Class], x.Longest)
		fmt.Fprintf(&line, ", %s %.3f", x.Class, x.Longest.Seconds())
	}
	w.write("at %.0f, confirmed %d%s\n", p.At.Seconds(), p.Confirmed, line.String())
}

// text names the longest pauses of the whole watch.
func (w *watch) text() string {
	var out []string
	for _, class := range w.classes {
		out = append(out, fmt.Sprintf(" %s %.3f s", class, w.longest[class].Seconds()))
	}
	return strings.Join(out, ",")
}
