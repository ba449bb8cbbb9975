package deadletter

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/tracing"
)

// copyWait is how long a copy waits for room in its target's window before it is lost.
const copyWait = time.Second

// Copier sends the at-most-once dead letters of one source queue, in order, and forgets
// them (DL-10 to DL-12). It has a goroutine only while copies wait.
type Copier struct {
	cfg    Config
	src    Source
	router Router
	sender Sender
	log    *slog.Logger
	ctx    context.Context //nolint:containedctx // it is the lifetime of the goroutine that Add starts
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	queue   []quorumq.Discarded
	running bool
	stats   CopyStats
	warned  map[warning]struct{}
}

// CopyStats are a copier's statistics since its start.
type CopyStats struct {
	Sent uint64 // copies that their target stored
	Lost Causes // copies that were lost, by Cause (DL-10)
}

// NewCopier returns a copier that waits for Add. The Config must be valid.
func NewCopier(c Config, src Source, router Router, sender Sender) *Copier {
	c = c.withDefaults()
	x := &Copier{
		cfg: c, src: src, router: router, sender: sender,
		log: c.Logger.With(slog.String("queue_uid", src.UID().String())), warned: make(map[warning]struct{}),
	}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	return x
}

// Add adds copies to be sent, in order. It does not block.
func (x *Copier) Add(d []quorumq.Discarded) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ctx.Err() != nil {
		return
	}
	if room := max(x.cfg.MaxCopies-len(x.queue), 0); len(d) > room {
		x.stats.Lost[CauseOverflow] += uint64(len(d) - room)
		d = d[:room]
	}
	x.queue = append(x.queue, d...)
	if !x.running && len(x.queue) > 0 {
		x.running = true
		x.done.Go(x.run)
	}
}

// Close ends the copier: waiting copies are lost. It does not wait for the goroutine, see Wait.
func (x *Copier) Close() { x.cancel() }

// Wait waits until a closed copier's goroutine has ended.
func (x *Copier) Wait() { x.done.Wait() }

// Busy reports whether copies wait or are being sent. A copy that was handed to its target's gateway does not count:
// the gateway continues without the copier.
func (x *Copier) Busy() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.running
}

// Stats returns the figures.
func (x *Copier) Stats() CopyStats {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.stats
}

// run ends when there is nothing to send; what comes then starts it again.
func (x *Copier) run() {
	var batch []quorumq.Discarded
	k := resolver{rt: x.router, src: x.src}
	for {
		x.mu.Lock()
		batch, x.queue = x.queue, batch[:0]
		if len(batch) == 0 || x.ctx.Err() != nil {
			x.running = false
			x.mu.Unlock()
			return
		}
		x.mu.Unlock()
		for i := range batch {
			if !x.awaitServing() {
				break
			}
			x.send(&k, &batch[i])
		}
	}
}

// awaitServing waits until the view was confirmed (EX-16); false when the copier is closed. What
// comes meanwhile waits, up to Config.MaxCopies.
func (x *Copier) awaitServing() bool {
	for {
		changed := x.router.ServesChanged()
		if x.router.Serves() {
			return true
		}
		select {
		case <-changed:
		case <-x.ctx.Done():
			return false
		}
	}
}

// send routes one copy by the present view and hands it to its targets.
func (x *Copier) send(k *resolver, d *quorumq.Discarded) {
	k.look(x.router.View())
	way := k.route(d)
	if len(way.targets) == 0 {
		x.lost(way.cause, way.key, way.text, x.cfg.Tracer.Origin(way.msg.Headers))
		return
	}
	nm, body := way.encode()
	origin := x.cfg.Tracer.Origin(way.msg.Headers)
	for _, uid := range way.targets {
		nm.Priority = levelAt(k.view, uid, way.msg.AskedPriority())
		answered := x.answers(uid, origin, k.trace(x.cfg.Tracer, origin, d, uid))
		ctx, cancel := context.WithTimeout(x.ctx, copyWait)
		if err := x.sender.Enqueue(ctx, uid, nm, body, answered); err != nil {
			answered(err)
		}
		cancel()
	}
}

// answers returns what takes a target's answer, which ends the span of the copy.
func (x *Copier) answers(uid id.QueueUID, origin *tracing.Origin, span *tracing.Forwarded) func(error) {
	return func(err error) {
		if err != nil {
			span.End(err.Error())
		} else {
			span.End("")
		}
		x.answered(uid, origin, err)
	}
}

// answered counts the outcome of a copy. It is never sent again: at most once is all it promises.
func (x *Copier) answered(uid id.QueueUID, origin *tracing.Origin, err error) {
	switch {
	case err == nil:
		x.mu.Lock()
		x.stats.Sent++
		x.mu.Unlock()
	case errors.Is(err, ErrRefused): // LEN-6
		x.lost(CauseFull, uid.String(), "queue "+uid.String()+" is full: its length limit refuses dead letters", origin)
	case errors.Is(err, ErrNoTarget):
		x.lost(CauseTargetGone, uid.String(), "queue "+uid.String()+" was deleted", origin)
	default:
		x.lost(CauseUnavailable, uid.String(), "queue "+uid.String()+" does not answer: "+err.Error(), origin)
	}
}

// lost counts a lost copy and warns once per thing to blame. of is the copy, if it is traced.
func (x *Copier) lost(c Cause, key, text string, of *tracing.Origin) {
	x.mu.Lock()
	x.stats.Lost[c]++
	w := warning{c, key}
	_, known := x.warned[w]
	if len(x.warned) >= maxWarnings {
		clear(x.warned)
	}
	x.warned[w] = struct{}{}
	x.mu.Unlock()
	if !known {
		x.log.Warn("at-most-once dead letters are lost", slog.String("cause", c.String()), slog.String("reason", text), of.Attr())
	}
}
