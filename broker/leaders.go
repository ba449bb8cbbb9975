package broker

import (
	"sync"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/deadletter"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// leaders holds the queues that this node leads, with what forwards their dead letters.
type leaders struct {
	mu       sync.Mutex
	led      map[id.QueueUID]*leading
	ready    bool // the broker is attached
	closed   bool
	retiring sync.WaitGroup

	// Figures of terms that are over.
	pastConfirmed         uint64
	pastRetries, pastLost deadletter.Causes
}

// leading is one queue in one term. Forwarder and copier are made when they are needed.
type leading struct {
	q         *cluster.Led
	forwarder *deadletter.Forwarder
	copier    *deadletter.Copier
	// What came before the broker was attached.
	woken  bool
	copies []quorumq.Discarded
}

// Leading implements cluster.Leaders: a term begins.
func (b *Broker) Leading(q *cluster.Led) {
	l := &b.leaders
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if old := l.led[q.UID()]; old != nil {
		l.retire(old)
	}
	l.led[q.UID()] = &leading{q: q}
}

// Ceased implements cluster.Leaders: a term is over.
func (b *Broker) Ceased(q *cluster.Led) {
	l := &b.leaders
	l.mu.Lock()
	defer l.mu.Unlock()
	if x := l.led[q.UID()]; x != nil && x.q == q {
		delete(l.led, q.UID())
		l.retire(x)
	}
}

// Backlog implements cluster.Leaders: it wakes the forwarder (DL-22).
func (b *Broker) Backlog(q *cluster.Led) {
	l := &b.leaders
	l.mu.Lock()
	defer l.mu.Unlock()
	if x := l.led[q.UID()]; x != nil && x.q == q {
		x.woken = true
		if l.ready {
			b.forward(x)
		}
	}
}

// Copies implements cluster.Leaders: it sends at-most-once dead letters (DL-11).
func (b *Broker) Copies(q *cluster.Led, d []quorumq.Discarded) {
	l := &b.leaders
	l.mu.Lock()
	defer l.mu.Unlock()
	if x := l.led[q.UID()]; x != nil && x.q == q {
		x.copies = append(x.copies, d...)
		if l.ready {
			b.forward(x)
		}
	}
}

// Purging implements cluster.Leaders: the forwarder stops for the time of a purge.
func (b *Broker) Purging(q *cluster.Led, then func(arrived uint64, release func())) {
	if f := b.forwarderOf(q); f != nil {
		f.Hold(then)
		return
	}
	then(0, func() {})
}

// forwarderOf returns the forwarder of a term; it is made if there is none. nil: the term is over.
func (b *Broker) forwarderOf(q *cluster.Led) *deadletter.Forwarder {
	l := &b.leaders
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.led[q.UID()]
	if x == nil || x.q != q {
		return nil
	}
	b.makeForwarder(x)
	return x.forwarder
}

// makeForwarder makes the forwarder, if there is none; its caller holds the lock.
func (b *Broker) makeForwarder(x *leading) {
	if x.forwarder == nil {
		x.forwarder = deadletter.NewForwarder(b.forwarderConfig(x.q), x.q, forwardRouter{b}, forwardSender{b})
	}
}

// forward starts what is due for a queue; its caller holds the lock.
func (b *Broker) forward(x *leading) {
	if x.woken {
		b.makeForwarder(x)
		x.forwarder.Wake()
		x.woken = false
	}
	if len(x.copies) > 0 {
		if x.copier == nil {
			x.copier = deadletter.NewCopier(b.deadLetterConfig(), x.q, forwardRouter{b}, forwardSender{b})
		}
		x.copier.Add(x.copies)
		x.copies = x.copies[:0]
	}
}

func (b *Broker) deadLetterConfig() deadletter.Config {
	c := b.cfg.DeadLetter
	if c.Logger == nil {
		c.Logger = b.log
	}
	return c
}

// forwarderConfig tells of dead letters that wait (ST-5).
func (b *Broker) forwarderConfig(q *cluster.Led) deadletter.Config {
	c := b.deadLetterConfig()
	c.Told = func(cause, reason string) {
		kind := event.DeadLetterUnblocked
		if cause != "" {
			kind = event.DeadLetterBlocked
		}
		if part := b.cluster.Load(); part != nil {
			part.EmitQueue(q.UID(), event.Event{Kind: kind, Cause: cause, Detail: reason})
		}
	}
	return c
}

// retire ends a term's goroutines and keeps their figures; its caller holds the lock.
func (l *leaders) retire(x *leading) {
	if f := x.forwarder; f != nil {
		f.Close()
		s := f.Stats()
		l.pastConfirmed += s.Confirmed
		l.pastRetries.Add(&s.Retries)
		l.retiring.Go(f.Wait)
	}
	if c := x.copier; c != nil {
		c.Close()
		s := c.Stats()
		l.pastLost.Add(&s.Lost)
		l.retiring.Go(c.Wait)
	}
}

// attached starts what had to wait for the cluster.
func (l *leaders) attached(b *Broker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ready = true
	for _, x := range l.led {
		b.forward(x)
	}
}

// close ends all terms and waits for their goroutines.
func (l *leaders) close() {
	l.mu.Lock()
	l.closed = true
	for uid, x := range l.led {
		delete(l.led, uid)
		l.retire(x)
	}
	l.mu.Unlock()
	l.retiring.Wait()
}

// retry tells the forwarders that a queue may take letters again (DL-24).
func (l *leaders) retry(target id.QueueUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.led {
		if x.forwarder != nil {
			x.forwarder.Retry(target)
		}
	}
}

// totals are the figures of all terms on this node.
func (l *leaders) totals() (confirmed, lostCopies uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	confirmed, lostCopies = l.pastConfirmed, l.pastLost.Sum()
	for _, x := range l.led {
		if x.forwarder != nil {
			confirmed += x.forwarder.Stats().Confirmed
		}
		if x.copier != nil {
			s := x.copier.Stats()
			lostCopies += s.Lost.Sum()
		}
	}
	return confirmed, lostCopies
}

// DeadLetters implements cluster.Leaders (ST-1, DL-52).
func (b *Broker) DeadLetters(q *cluster.Led) (d cluster.DeadLetters) {
	l := &b.leaders
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.led[q.UID()]
	if x == nil || x.q != q {
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
