// Package forwarding hosts what forwards the dead letters of the queues that a node leads: a forwarder
// for the backlog of each, and a copier for what is sent at most once, from the beginning of a term
// of the queue's leadership to its end. The node's view and policies decide where dead letters go
// (Router), and its gateway sends them (Sender).
package forwarding

import (
	"sync"

	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/deadletter"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// Forwarders forwards the dead letters of the queues that this node leads. Calls for one queue come from the worker
// that runs its mailbox, in order; none blocks. mu guards what is below it.
type Forwarders struct {
	cfg    deadletter.Config
	router deadletter.Router
	sender deadletter.Sender
	report func(id.QueueUID, event.Event)

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
	q         deadletter.Source
	forwarder *deadletter.Forwarder
	copier    *deadletter.Copier
}

// New returns what hosts no forwarder yet. report is called with events of queues.
func New(c deadletter.Config, r deadletter.Router, s deadletter.Sender, report func(id.QueueUID, event.Event)) *Forwarders {
	return &Forwarders{cfg: c, router: r, sender: s, report: report, led: map[id.QueueUID]*forwarding{}}
}

// Leading begins a term.
func (f *Forwarders) Leading(q deadletter.Source) {
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

// Ceased ends a term.
func (f *Forwarders) Ceased(q deadletter.Source) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if x := f.of(q); x != nil {
		delete(f.led, q.UID())
		f.retire(x)
	}
}

// of returns what a term has; nil: it is over. Its caller holds the lock.
func (f *Forwarders) of(q deadletter.Source) *forwarding {
	if x := f.led[q.UID()]; x != nil && x.q == q {
		return x
	}
	return nil
}

// Backlog reports that a queue's backlog has changed: it wakes the forwarder (DL-22).
func (f *Forwarders) Backlog(q deadletter.Source) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if x := f.of(q); x != nil {
		f.forwarder(x).Wake()
	}
}

// Copies sends at-most-once dead letters, in order (DL-11). The slice is handed over.
func (f *Forwarders) Copies(q deadletter.Source, d []quorumq.Discarded) {
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

// Copying reports whether at-most-once dead letters of a term wait to be sent: its end would lose them.
func (f *Forwarders) Copying(q deadletter.Source) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.of(q)
	return x != nil && x.copier != nil && x.copier.Busy()
}

// Purging stops a queue's forwarder for the time of a purge: then is called once, when nothing more of the backlog
// leaves for its targets, with the number of its dead letters that some target has or may have; release must be
// called once the purge was answered. Purging calls then from any goroutine, or at once.
func (f *Forwarders) Purging(q deadletter.Source, then func(arrived uint64, release func())) {
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

// forwarder returns a term's forwarder, and creates it if necessary. Its caller holds the lock.
func (f *Forwarders) forwarder(x *forwarding) *deadletter.Forwarder {
	if x.forwarder == nil {
		c, uid := f.cfg, x.q.UID()
		c.OnBlocked = func(cause, reason string) { // ST-5
			kind := event.DeadLetterUnblocked
			if cause != "" {
				kind = event.DeadLetterBlocked
			}
			f.report(uid, event.Event{Kind: kind, Cause: cause, Detail: reason})
		}
		x.forwarder = deadletter.NewForwarder(c, x.q, f.router, f.sender)
	}
	return x.forwarder
}

// retire ends a term's goroutines and keeps their figures; its caller holds the lock.
func (f *Forwarders) retire(x *forwarding) {
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

// Close ends all terms and waits for their goroutines.
func (f *Forwarders) Close() {
	f.mu.Lock()
	f.closed = true
	for uid, x := range f.led {
		delete(f.led, uid)
		f.retire(x)
	}
	f.mu.Unlock()
	f.retiring.Wait()
}

// Retry notifies the forwarders that a queue may take dead letters again (DL-24).
func (f *Forwarders) Retry(target id.QueueUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.led {
		if x.forwarder != nil {
			x.forwarder.Retry(target)
		}
	}
}

// Figures returns the figures of a queue's dead letters in its term (ST-1, DL-52).
func (f *Forwarders) Figures(q deadletter.Source) (d DeadLetters) {
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

// Sums are a node's figures of dead letters (DL-52).
type Sums struct {
	Confirmed uint64            // dead letters that every target has, since the start
	Waiting   deadletter.Causes // dead letters that cannot go on now
	Retries   deadletter.Causes // attempts that failed, since the start
	Lost      deadletter.Causes // at-most-once copies that no target took, since the start (DL-10)
	Blocked   int               // queues with dead letters that wait now
}

// Totals are the figures of all terms on this node.
func (f *Forwarders) Totals() Sums {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum := Sums{Confirmed: f.pastConfirmed, Retries: f.pastRetries, Lost: f.pastLost}
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

// DeadLetters are the figures of a queue's dead letters in a term of its leader (DL-52).
type DeadLetters struct {
	BacklogTrouble string            // why the backlog waits; "": it does not
	Waiting        map[string]uint64 // dead letters that cannot be forwarded now, by cause
	Retries        map[string]uint64 // attempts that failed, by cause
	Lost           map[string]uint64 // at-most-once copies that no target took, by cause (DL-10)
}
