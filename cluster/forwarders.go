package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/deadletter"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/quorumq"
)

var _ deadletter.Source = (*Led)(nil)

// forwarders hosts what forwards the dead letters of the queues that this node leads. Calls for one
// queue come from the worker that runs its mailbox, in order; none blocks. mu guards what is
// below it.
type forwarders struct {
	cfg    deadletter.Config
	router deadletter.Router
	sender deadletter.Sender
	tell   func(id.QueueUID, event.Event)

	mu       sync.Mutex
	led      map[id.QueueUID]*forwarding
	closed   bool
	retiring sync.WaitGroup

	// Figures of terms that are over.
	pastConfirmed         uint64
	pastRetries, pastLost deadletter.Causes
}

// forwarding is one queue in one term. Forwarder and copier are made when they are needed.
type forwarding struct {
	q         *Led
	forwarder *deadletter.Forwarder
	copier    *deadletter.Copier
}

func newForwarders(c deadletter.Config, r deadletter.Router, s deadletter.Sender, tell func(id.QueueUID, event.Event)) *forwarders {
	return &forwarders{cfg: c, router: r, sender: s, tell: tell, led: map[id.QueueUID]*forwarding{}}
}

// leading begins a term.
func (f *forwarders) leading(q *Led) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	if old := f.led[q.UID()]; old != nil {
		f.retire(old)
	}
	f.led[q.UID()] = &forwarding{q: q}
}

// ceased ends a term.
func (f *forwarders) ceased(q *Led) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if x := f.of(q); x != nil {
		delete(f.led, q.UID())
		f.retire(x)
	}
}

// of returns what a term has; nil: it is over. Its caller holds the lock.
func (f *forwarders) of(q *Led) *forwarding {
	if x := f.led[q.UID()]; x != nil && x.q == q {
		return x
	}
	return nil
}

// backlog tells that a queue's backlog has news: it wakes the forwarder (DL-22).
func (f *forwarders) backlog(q *Led) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if x := f.of(q); x != nil {
		f.forwarder(x).Wake()
	}
}

// copies sends at-most-once dead letters, in order (DL-11). The slice is handed over.
func (f *forwarders) copies(q *Led, d []quorumq.Discarded) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.of(q)
	if x == nil {
		return
	}
	if x.copier == nil {
		x.copier = deadletter.NewCopier(f.cfg, x.q, f.router, f.sender)
	}
	x.copier.Add(d)
}

// purging stops a queue's forwarder for the time of a purge: then is called once when nothing of
// the backlog leaves for its targets any more, with the number of letters in it that some target
// has or may have, and release once the purge was answered. It calls then from any
// goroutine, or at once.
func (f *forwarders) purging(q *Led, then func(arrived uint64, release func())) {
	f.mu.Lock()
	x := f.of(q)
	if x == nil {
		f.mu.Unlock()
		then(0, func() {})
		return
	}
	forwarder := f.forwarder(x)
	f.mu.Unlock()
	forwarder.Hold(then)
}

// forwarder returns a term's forwarder; it is made if there is none. Its caller holds the lock.
func (f *forwarders) forwarder(x *forwarding) *deadletter.Forwarder {
	if x.forwarder == nil {
		c, uid := f.cfg, x.q.UID()
		c.Told = func(cause, reason string) { // ST-5
			kind := event.DeadLetterUnblocked
			if cause != "" {
				kind = event.DeadLetterBlocked
			}
			f.tell(uid, event.Event{Kind: kind, Cause: cause, Detail: reason})
		}
		x.forwarder = deadletter.NewForwarder(c, x.q, f.router, f.sender)
	}
	return x.forwarder
}

// retire ends a term's goroutines and keeps their figures; its caller holds the lock.
func (f *forwarders) retire(x *forwarding) {
	if w := x.forwarder; w != nil {
		w.Close()
		s := w.Stats()
		f.pastConfirmed += s.Confirmed
		f.pastRetries.Add(&s.Retries)
		f.retiring.Go(w.Wait)
	}
	if c := x.copier; c != nil {
		c.Close()
		s := c.Stats()
		f.pastLost.Add(&s.Lost)
		f.retiring.Go(c.Wait)
	}
}

// close ends all terms and waits for their goroutines.
func (f *forwarders) close() {
	f.mu.Lock()
	f.closed = true
	for uid, x := range f.led {
		delete(f.led, uid)
		f.retire(x)
	}
	f.mu.Unlock()
	f.retiring.Wait()
}

// retry tells the forwarders that a queue may take letters again (DL-24).
func (f *forwarders) retry(target id.QueueUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.led {
		if x.forwarder != nil {
			x.forwarder.Retry(target)
		}
	}
}

// figures tells what has come of a queue's dead letters in its term (ST-1, DL-52).
func (f *forwarders) figures(q *Led) (d DeadLetters) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.of(q)
	if x == nil {
		return d
	}
	if x.forwarder != nil {
		s := x.forwarder.Stats()
		d.BacklogTrouble, d.Waiting, d.Retries = s.LastError, s.Waiting.ByWord(), s.Retries.ByWord()
	}
	if x.copier != nil {
		s := x.copier.Stats()
		d.Lost = s.Lost.ByWord()
	}
	return d
}

// DeadLetterFigures are a node's figures of dead letters (DL-52).
type DeadLetterFigures struct {
	Confirmed uint64            // dead letters that every target has, since the start
	Waiting   deadletter.Causes // letters that cannot go on now
	Retries   deadletter.Causes // attempts that failed, since the start
	Lost      deadletter.Causes // at-most-once copies that no target took, since the start (DL-10)
	Blocked   int               // queues with letters that wait now
}

// totals are the figures of all terms on this node.
func (f *forwarders) totals() DeadLetterFigures {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum := DeadLetterFigures{Confirmed: f.pastConfirmed, Retries: f.pastRetries, Lost: f.pastLost}
	for _, x := range f.led {
		if x.forwarder != nil {
			s := x.forwarder.Stats()
			sum.Confirmed += s.Confirmed
			sum.Waiting.Add(&s.Waiting)
			sum.Retries.Add(&s.Retries)
			if s.LastError != "" {
				sum.Blocked++
			}
		}
		if x.copier != nil {
			s := x.copier.Stats()
			sum.Lost.Add(&s.Lost)
		}
	}
	return sum
}

// letterRouter is deadletter.Router over this node's view.
type letterRouter struct {
	views    *metadata.Views
	policies *policy.Book
}

func (r letterRouter) View() *catalog.View { return r.views.View() }

func (r letterRouter) Changed() <-chan struct{} { return r.views.Next() }

func (r letterRouter) Rule(q *catalog.QueueRecord) deadletter.Rule {
	e := r.policies.InForce(r.View(), q)
	return deadletter.Rule{
		Enabled: e.HasDeadLetterExchange, Exchange: e.DeadLetterExchange,
		RoutingKey: e.DeadLetterRoutingKey, HasRoutingKey: e.HasDeadLetterRoutingKey,
		AllowCycles: e.DeadLetterCycles, MaxHops: uint64(e.DeadLetterMaxHops),
	}
}

func (r letterRouter) AlternateExchange(v *catalog.View, x *catalog.Exchange) (string, bool) {
	return r.policies.AlternateExchange(v, x)
}

// letterSender is deadletter.Sender: letters go to their targets as what clients publish does.
type letterSender struct {
	open func(id.QueueUID) (*Queue, error)
}

func (s letterSender) Transfer(ctx context.Context, target id.QueueUID, t *quorumq.Transfer, bodies [][]byte) (quorumq.Reply, error) {
	q, err := s.open(target)
	if err != nil {
		return quorumq.Reply{}, letterError(err)
	}
	r, err := q.Transfer(ctx, t, bodies)
	return r, letterError(err)
}

func (s letterSender) Enqueue(ctx context.Context, target id.QueueUID, m quorumq.NewMessage, body []byte, done func(error)) error {
	q, err := s.open(target)
	if err != nil {
		return letterError(err)
	}
	return letterError(q.Enqueue(ctx, m, body, func(err error) { done(letterError(err)) }))
}

// letterError makes the errors that the forwarder decides on.
func letterError(err error) error {
	switch {
	case errors.Is(err, ErrNoSuchQueue):
		return fmt.Errorf("%w: %w", deadletter.ErrNoTarget, err)
	case errors.Is(err, ErrRefused):
		return fmt.Errorf("%w: %w", deadletter.ErrRefused, err)
	case errors.Is(err, ErrUnknownOutcome):
		return fmt.Errorf("%w: %w", deadletter.ErrDoubtful, err)
	}
	return err
}
