package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

const (
	barCells = 20
	// barColumns is the maximum width of a bar's line: a wrapped line cannot be overwritten.
	barColumns = 100
	// lineEvery is the progress in percent between two lines where there is no terminal.
	lineEvery = 10
)

// partDoneError is an operation that ended early after it had changed something.
type partDoneError struct{ error }

// Unwrap returns why it ended.
func (e partDoneError) Unwrap() error { return e.error }

// watcher shows the progress of an operation.
type watcher struct {
	out io.Writer
	bar bool // out is a terminal: overwrite the last line
	// the last line shown, without a terminal
	phase   string
	percent int64
	detail  string
	open    bool // the last line is a bar without a line end
}

func newWatcher(out io.Writer) *watcher {
	return &watcher{out: out, bar: isTerminal(out), percent: -1}
}

// show takes the present state of the operation.
func (w *watcher) show(o client.Operation) {
	if w.bar {
		printf(w.out, "\r%s\x1b[K", clip(barLine(o)))
		w.open = true
		return
	}
	percent := percentOf(o)
	if running(o) && o.Phase == w.phase && percent < w.percent+lineEvery && o.Detail == w.detail && w.percent >= 0 {
		return
	}
	w.phase, w.percent, w.detail = o.Phase, percent-percent%lineEvery, o.Detail
	printf(w.out, "%s\n", plainLine(o))
}

// end completes the line of the bar.
func (w *watcher) end() {
	if w.open {
		printf(w.out, "\n")
		w.open = false
	}
}

// percentOf returns 0 for a total that is not known yet, and never more than 100: the work may grow
// while it runs.
func percentOf(o client.Operation) int64 {
	if o.Total <= 0 {
		return 0
	}
	return min(100, 100*o.Done/o.Total)
}

// barLine is the operation on one line with a bar.
func barLine(o client.Operation) string {
	cells := strings.Repeat(" ", barCells)
	if o.Total > 0 {
		full := int(percentOf(o) * barCells / 100)
		cells = strings.Repeat("#", full) + strings.Repeat("-", barCells-full)
	}
	return fmt.Sprintf("%s [%s] %s", o.Kind, cells, withState(o))
}

// plainLine is the operation on one line for a log.
func plainLine(o client.Operation) string {
	return fmt.Sprintf("%s %s: %s", o.ID, o.Kind, withState(o))
}

// withState adds the phase, or how the operation ended.
func withState(o client.Operation) string {
	parts := []string{figures(o)}
	if running(o) {
		parts = append(parts, o.Phase, o.Detail)
	} else {
		parts = append(parts, stateName(o.State))
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	if len(parts) == 0 {
		return stateName(o.State)
	}
	return strings.Join(parts, "  ")
}

func running(o client.Operation) bool {
	return o.State == client.OperationRunning
}

// figures are percent, done of total, rate and time left, as far as known.
func figures(o client.Operation) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	switch {
	case o.Total > 0:
		add("%3d %%", percentOf(o))
		add("%d of %d %s", o.Done, o.Total, o.Unit)
	case o.Done > 0:
		add("%d %s", o.Done, o.Unit)
	}
	if r := o.Rate; r > 0 && running(o) {
		add("%.3g/s", r)
	}
	if o.ETA > 0 && running(o) {
		add("%v left", shortDuration(o.ETA))
	}
	return strings.Join(parts, "  ")
}

// shortDuration rounds for display: to 0.1 s below a second, else to seconds.
func shortDuration(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

func stateName(s client.OperationState) string {
	return cmp.Or(string(s), "unspecified")
}

// clip cuts a line that a terminal might wrap, and drops all after the first line.
func clip(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if r := []rune(s); len(r) > barColumns {
		return string(r[:barColumns-1]) + "…"
	}
	return s
}

// follow watches an operation until it has ended and turns its result into the command's. If ctx
// ends first, the operation continues.
func (s *session) follow(ctx context.Context, cmd *cobra.Command, c *client.Client, o client.Operation) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	w := newWatcher(cmd.ErrOrStderr())
	end, err := c.WatchOperation(ctx, o.ID, w.show)
	w.end()
	if err != nil {
		if ctx.Err() != nil {
			printf(cmd.ErrOrStderr(), "operation %s continues: watch it again with\n  quoratectl operations watch %s\nor end it with\n  quoratectl operations cancel %s\n",
				o.ID, o.ID, o.ID)
			if errors.Is(err, context.Canceled) {
				return fmt.Errorf("no longer watching operation %s", o.ID)
			}
			return fmt.Errorf("operation %s has not ended within --timeout %v", o.ID, s.timeout)
		}
		return err
	}
	if err := s.printOperation(cmd.OutOrStdout(), end); err != nil {
		return err
	}
	if end.State == client.OperationDone {
		return nil
	}
	err = fmt.Errorf("operation %s %s: %s", end.ID, stateName(end.State), end.Error)
	if end.Done > 0 {
		return partDoneError{fmt.Errorf("%w: %d of %d %s are done and stay done", err, end.Done, end.Total, end.Unit)}
	}
	return err
}

// printOperation writes an operation as a row or as --output says.
func (s *session) printOperation(w io.Writer, o client.Operation) error {
	return s.printOne(w, operationHeader(), operationRow(o), o)
}

func operationHeader() []string {
	return []string{"operation", "kind", "target", "state", "phase", "progress", "started (UTC)", ""}
}

// operationRow shows the first line of an error instead of the detail.
func operationRow(o client.Operation) []string {
	note := o.Detail
	if o.Error != "" {
		note, _, _ = strings.Cut(o.Error, "\n")
	}
	return []string{
		o.ID, o.Kind, o.Target, stateName(o.State), o.Phase, figures(o),
		o.Started.UTC().Format(time.DateTime), note,
	}
}
