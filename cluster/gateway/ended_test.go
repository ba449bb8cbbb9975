package gateway

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
)

// decided returns a consumer that has acked the first of its two deliveries; the leader has the command.
func decided(t *testing.T) (*Queue, *leader, *Consumer) {
	t.Helper()
	q, l := ledQueue(t)
	c := l.consume(q, func(quorumq.MsgID) {})
	for range 2 {
		l.publish(q, func(error) {})
		l.applyAll()
	}
	q.g.Deliver(q.uid, l.assigned)
	if n := c.Decide(quorumq.MsgIDRange{First: 1, Last: 1}, Decision{Kind: Ack}); n != 1 {
		t.Fatalf("%d messages were decided about, want 1", n)
	}
	synctest.Wait()
	return q, l, c
}

// G4: what a consumer has decided and its queue has not stored counts as settled neither before nor after the
// consumer's end, whatever ends it.
func TestFlushOfEndedConsumer(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		end  func(q *Queue, l *leader, c *Consumer)
		want error
	}{
		"cancelled by the queue": {func(q *Queue, _ *leader, c *Consumer) {
			q.g.Notice(q.uid, quorumq.Notice{Consumer: c.key, Kind: quorumq.NoticeCancelled})
		}, traffic.ErrConsumerGone},
		"unknown to the queue": {func(_ *Queue, l *leader, c *Consumer) {
			l.index++
			l.queue.Apply(quorumq.Meta{Index: l.index}, &quorumq.SessionClosed{Session: c.key.SessionKey})
			l.applyAll()
		}, traffic.ErrConsumerGone},
		"the queue is deleted": {func(q *Queue, _ *leader, _ *Consumer) { q.g.QueueGone(q.uid) }, traffic.ErrNoSuchQueue},
		"the node stops":       {func(q *Queue, _ *leader, _ *Consumer) { q.g.Close() }, traffic.ErrClosed},
		"settled in time":      {func(_ *Queue, l *leader, _ *Consumer) { l.applyAll() }, nil},
		"settled, then cancelled": {func(q *Queue, l *leader, c *Consumer) {
			l.applyAll()
			q.g.Notice(q.uid, quorumq.Notice{Consumer: c.key, Kind: quorumq.NoticeCancelled})
		}, nil},
	} {
		withoutWaiting(t, func(t *testing.T) {
			q, l, c := decided(t)
			row.end(q, l, c)
			synctest.Wait()
			for range 2 {
				if err := c.Flush(t.Context()); !errors.Is(err, row.want) {
					t.Errorf("%s: flushed with %v, want %v", name, err, row.want)
				}
			}
		})
	}
}

// A client learns of decisions that come after the end of its consumer.
func TestDecideAfterTheEnd(t *testing.T) {
	t.Parallel()
	withoutWaiting(t, func(t *testing.T) {
		q, l, c := decided(t)
		l.applyAll()
		q.g.Notice(q.uid, quorumq.Notice{Consumer: c.key, Kind: quorumq.NoticeCancelled})
		synctest.Wait()
		if err := c.Missed(); err != nil {
			t.Errorf("missed before a decision: %v", err)
		}
		if n := c.Decide(quorumq.MsgIDRange{First: 2, Last: 2}, Decision{Kind: Ack}); n != 0 {
			t.Errorf("%d messages are decided about", n)
		}
		if err := c.Missed(); !errors.Is(err, traffic.ErrConsumerGone) {
			t.Errorf("missed: %v", err)
		}
	})
}

// A flush of a consumer that its client has closed waits for what was decided before, as one of an open consumer does.
func TestFlushOfClosedConsumer(t *testing.T) {
	t.Parallel()
	withoutWaiting(t, func(t *testing.T) {
		_, l, c := decided(t)
		c.Close()
		flushed := make(chan error, 1)
		go func() { flushed <- c.Flush(t.Context()) }()
		synctest.Wait()
		if len(flushed) > 0 {
			t.Error("what was decided is flushed before the queue has answered")
		}
		l.applyAll()
		if err := <-flushed; err != nil {
			t.Error(err)
		}
		if err := c.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		l.counts("closed", 1, 0, 0)
	})
}

// CT-2: the queue answers a decision that comes too late as one about messages that the consumer does not hold.
func TestDecideInVain(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]uint64{"in time": 0, "too late": 1} {
		withoutWaiting(t, func(t *testing.T) {
			_, l, c := decided(t)
			if want > 0 {
				l.index++
				l.queue.Apply(quorumq.Meta{Index: l.index}, &quorumq.Requeue{Consumer: c.key, Ranges: []quorumq.MsgIDRange{{First: 1, Last: 1}}})
			}
			l.applyAll()
			if err := c.Flush(t.Context()); err != nil {
				t.Error(err)
			}
			if n := c.Void(); n != want {
				t.Errorf("%s: %d decisions in vain, want %d", name, n, want)
			}
		})
	}
}
