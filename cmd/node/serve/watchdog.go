package serve

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"
)

const (
	// StopLimit bounds a stop, not counting the drain, which timeouts.drain bounds. Supervisors must wait for longer before
	// they kill the process, or nobody learns what it waited for.
	StopLimit = 25 * time.Second
	// slowPhase is how long a phase of a stop may take without a line in the log.
	slowPhase = time.Second
	// waitsEvery is the interval between lines about a stop that takes long.
	waitsEvery = 5 * time.Second
	// maxStackBytes bounds the stacks that are written when a stop is given up. With more goroutines than mostSingly those
	// with equal stacks are written once, with their number.
	maxStackBytes = 1 << 20
	mostSingly    = 1000
)

// watchdog ends the process if a stop takes too long, and reports what the stop waits for. What is confirmed is on disk
// long before that, here or at a majority, so that the process may end at any time. All methods may be called
// concurrently.
type watchdog struct {
	node   string
	log    *slog.Logger
	exit   func(code int) // os.Exit, unless a test replaces it
	stacks io.Writer      // gets the stacks of all goroutines

	mu     sync.Mutex // guards what follows
	asked  time.Time  // when the stop was asked for; zero: it was not
	limit  time.Duration
	phase  string
	since  time.Time // of the phase
	late   *time.Timer
	report *time.Timer
}

// newWatchdog returns one that waits for within.
func newWatchdog(node string, log *slog.Logger) *watchdog {
	return &watchdog{node: node, log: log, exit: os.Exit, stacks: os.Stderr, phase: phaseStart}
}

// within makes the process end unless done is called within the time. The time begins with the first call; later
// calls can only extend it.
func (w *watchdog) within(limit time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit = max(w.limit, limit)
	if !w.asked.IsZero() {
		w.late.Reset(time.Until(w.asked.Add(w.limit)))
		return
	}
	w.asked = time.Now()
	w.since = w.asked
	w.late = time.AfterFunc(limit, w.giveUp)
	w.report = time.AfterFunc(waitsEvery, w.waits)
}

// enter records what the stop waits for from now on. It logs the previous phase if that took long.
func (w *watchdog) enter(phase string) {
	w.mu.Lock()
	was, took := w.phase, time.Since(w.since)
	w.phase, w.since = phase, time.Now()
	w.mu.Unlock()
	if took >= slowPhase {
		w.log.Info("a phase of the stop has ended", "node", w.node, "phase", was, "took", took.Round(time.Millisecond))
	}
}

// waits logs what a stop is still waiting for.
func (w *watchdog) waits() {
	w.mu.Lock()
	phase, since, asked := w.phase, w.since, w.asked
	w.report.Reset(waitsEvery)
	w.mu.Unlock()
	w.log.Info("the node is stopping", "node", w.node, "waits_for", phase,
		"for", time.Since(since).Round(time.Millisecond), "since_asked", time.Since(asked).Round(time.Millisecond))
}

// giveUp ends the process. Neither the log nor the stacks hold it up.
func (w *watchdog) giveUp() {
	w.mu.Lock()
	phase, since, limit := w.phase, w.since, w.limit
	w.mu.Unlock()
	exitAfter(w.exit, ExitStopHangs, func() {
		w.log.Error("the process ends although a part of it has not stopped; nothing that was confirmed is lost", "node", w.node, "waits_for", phase,
			"for", time.Since(since).Round(time.Millisecond), "limit", limit, "exit_code", ExitStopHangs, "stacks", "follow on standard error")
		w.writeStacks()
	})
}

// writeStacks writes the stacks of all goroutines, as many as there is room for.
func (w *watchdog) writeStacks() {
	detail := 2 // of package pprof: each goroutine, with how long it waits
	if runtime.NumGoroutine() > mostSingly {
		detail = 1
	}
	out := &capped{to: w.stacks, room: maxStackBytes}
	if err := pprof.Lookup("goroutine").WriteTo(out, detail); err != nil {
		_, _ = fmt.Fprintf(w.stacks, "\n[%v]\n", err) // it ends in any case
	}
}

// done ends the watch: the node has stopped.
func (w *watchdog) done() {
	w.enter("")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.late.Stop()
	w.report.Stop()
}

// errCapped ends what is written to a capped writer.
var errCapped = errors.New("more stacks are left out")

// capped passes on so many bytes. One goroutine writes.
type capped struct {
	to   io.Writer
	room int
}

// Write implements io.Writer.
func (c *capped) Write(b []byte) (int, error) {
	n, err := c.to.Write(b[:min(len(b), c.room)])
	c.room -= n
	if err == nil && n < len(b) {
		err = errCapped
	}
	return n, err
}

// exitAfter says last words and ends the process, also if the words find nobody who takes them.
func exitAfter(exit func(int), code int, say func()) {
	time.AfterFunc(lastWords, func() { exit(code) })
	say()
	exit(code)
}
