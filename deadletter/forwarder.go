package deadletter

import (
	"context"
	"log/slog"
	"sync"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
	"github.com/quorate/quorate/tracing"
)

// Forwarder forwards the backlog of one source queue to its targets at least once, and with the
// deduplication in their machines exactly once (DL-21 to DL-29). It belongs to one term of the
// source's leadership and stores nothing: the forwarder of the next term starts at the head of the
// backlog. It has a goroutine only while there is a backlog.
type Forwarder struct {
	cfg    Config
	src    Source
	router Router
	sender Sender
	log    *slog.Logger
	ctx    context.Context //nolint:containedctx // it is the lifetime of the goroutine that Wake starts
	cancel context.CancelFunc
	nudge  chan struct{} // holds a token when the goroutine has to look up
	done   sync.WaitGroup

	mu      sync.Mutex
	running bool
	woken   bool // the backlog had changes that the goroutine has not processed
	hints   []hint
	holds   []*hold // while there are any, no dead letter is sent
	stats   Stats
	warned  map[warning]struct{}
}

// Stats are a forwarder's statistics since its start (ST-2).
type Stats struct {
	Confirmed uint64 // dead letters that every target has stored
	Repeats   uint64 // dead letters that a target had already stored
	Retries   Causes // attempts that failed, by Cause
	Waiting   Causes // dead letters that wait now, by Cause
	LastError string // why dead letters wait; empty if none does
}

// warning is what a log line is written for once.
type warning struct {
	cause Cause
	key   string
}

// maxWarnings bounds what is remembered of warnings; then they start anew.
const maxWarnings = 1024

// NewForwarder returns a forwarder that waits for Wake. The Config must be valid.
func NewForwarder(c Config, src Source, router Router, sender Sender) *Forwarder {
	c = c.withDefaults()
	f := &Forwarder{
		cfg: c, src: src, router: router, sender: sender, nudge: make(chan struct{}, 1),
		log: c.Logger.With(slog.String("queue_uid", src.UID().String())), warned: make(map[warning]struct{}),
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// Wake notifies the forwarder that the backlog may have changed. It does not block.
func (f *Forwarder) Wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil {
		return
	}
	f.woken = true
	f.look()
	if !f.running {
		f.running = true
		f.done.Go(f.run)
	}
}

// Retry notifies the forwarder that the target may accept dead letters again because it has room or
// a new leader (DL-24); 0 means all targets. It does not block.
func (f *Forwarder) Retry(target id.QueueUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.running {
		return
	}
	if h := (hint{target}); len(f.hints) < maxHints {
		f.hints = append(f.hints, h)
	} else {
		f.hints = append(f.hints[:0], hint{})
	}
	f.look()
}

// maxHints bounds the hints that wait; then one for all targets takes their place.
const maxHints = 64

// look never blocks: one nudge that is not taken yet stands for all.
func (f *Forwarder) look() {
	wait.Wake(f.nudge)
}

// Close ends the forwarder. It does not wait for the goroutines, see Wait.
func (f *Forwarder) Close() { f.cancel() }

// Wait waits until a closed forwarder's goroutines have ended.
func (f *Forwarder) Wait() { f.done.Wait() }

// Stats returns the figures.
func (f *Forwarder) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}

// run ends when there is no backlog any more, or this node leads no more; a nudge starts it again.
func (f *Forwarder) run() {
	r := newForwarding(f)
	for r.step() {
		if r.empty() && f.rest() {
			return
		}
		r.wait()
	}
	f.mu.Lock()
	f.running = false
	f.mu.Unlock()
	f.notifyHolds(0) // the purge fails: this node leads no more
}

// rest ends the goroutine unless there was news meanwhile.
func (f *Forwarder) rest() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.woken {
		return false
	}
	f.running = false
	f.stats.Waiting = Causes{}
	f.unblocked()
	return true
}

// unblocked notes, under mu, that no dead letter waits any more.
func (f *Forwarder) unblocked() {
	if f.stats.LastError != "" && f.cfg.OnBlocked != nil {
		f.cfg.OnBlocked("", "")
	}
	f.stats.LastError = ""
}

// news returns whether the backlog had news, and the hints since the last call.
func (f *Forwarder) news() (woken bool, hints []hint) {
	f.mu.Lock()
	defer f.mu.Unlock()
	woken, f.woken = f.woken, false
	hints, f.hints = f.hints, nil
	return woken, hints
}

// failed counts a failed attempt and warns once (DL-26). of is a traced message that it is about, or nil.
func (f *Forwarder) failed(c Cause, key, text string, of *tracing.Origin) {
	f.mu.Lock()
	f.stats.Retries[c]++
	first := f.stats.LastError == ""
	f.stats.LastError = text
	w := warning{c, key}
	_, known := f.warned[w]
	if len(f.warned) >= maxWarnings {
		clear(f.warned)
	}
	f.warned[w] = struct{}{}
	f.mu.Unlock()
	if first && f.cfg.OnBlocked != nil {
		f.cfg.OnBlocked(c.String(), text)
	}
	if !known {
		f.log.Warn("dead letters wait", slog.String("cause", c.String()), slog.String("reason", text), of.Attr())
	}
}
