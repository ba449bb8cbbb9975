package testcluster_test

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// condemn rejects messages of a queue whose dead letters go at least once to an exchange, with
// the key "dead".
func condemn(t *testing.T, p peer, queue, exchange string, n int) {
	t.Helper()
	p.declare(t, queue, text("x-dead-letter-exchange", exchange), text("x-dead-letter-routing-key", "dead"),
		text("x-dead-letter-strategy", "at-least-once"), text("x-overflow", "reject-publish"))
	p.publish(t, queue, n)
	p.consume(t, queue, n, brokerv1.Outcome_OUTCOME_DISCARD)
}

func (p peer) purge(t *testing.T, queue string) uint64 {
	t.Helper()
	out, err := p.admin.PurgeQueue(testContext(t), &brokerv1.PurgeQueueRequest{Name: queue})
	if err != nil {
		t.Fatal(err)
	}
	return out.GetMessages()
}

// a purge counts only dead letters that never arrive, at whatever moment it comes.
func TestPurgeCountsWhatIsGone(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	const many = 3000
	c := testcluster.Start(t, 3)
	ctx, p := testContext(t), dial(t, c.Addrs()[0])
	p.declare(t, "dead")
	before := uint64(0)
	for i := range 5 {
		queue, exchange := fmt.Sprint("work ", i), fmt.Sprint("exchange ", i)
		condemn(t, dial(t, c.Addrs()[i%3]), queue, exchange, many)
		// Now all of them begin to leave.
		if _, err := p.admin.DeclareExchange(ctx, &brokerv1.DeclareExchangeRequest{Name: exchange, Type: "fanout"}); err != nil {
			t.Fatal(err)
		}
		bound := make(chan error, 1)
		go func() {
			_, err := p.admin.Bind(ctx, &brokerv1.BindRequest{Binding: &brokerv1.Binding{Source: exchange, Destination: "dead"}})
			bound <- err
		}()
		for p.stats(t, "dead").GetStats().GetMessages() <= before+uint64(i*many/10) {
			if err := ctx.Err(); err != nil { // no pause: all is over within milliseconds
				t.Fatal(err)
			}
		}
		reported := p.purge(t, queue)
		if err := <-bound; err != nil {
			t.Fatal(err)
		}
		if n := p.stats(t, queue).GetStats().GetMessages(); n != 0 {
			t.Errorf("%s has %d messages after the purge", queue, n)
		}
		after := p.stats(t, "dead").GetStats().GetMessages()
		if reported+after-before != many {
			t.Errorf("%s: %d messages are purged, %d have arrived, want %d together", queue, reported, after-before, many)
		}
		before = after
	}
}

// dead letters that wait for a leader of their target are gone with the purge.
func TestPurgeWhileTargetIsDown(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 3)
	p, far := dial(t, c.Addrs()[0]), dial(t, c.Addrs()[2])
	far.declare(t, "dead", number("x-quorum-initial-group-size", 1))
	c.Kill(2)
	const purged = 500
	condemn(t, p, "source", "", purged)
	testcluster.Poll(t, "the dead letters wait", func() error {
		if s := p.stats(t, "source").GetStats(); s.GetMessagesDlx() != purged {
			return fmt.Errorf("the source has %v", s)
		}
		return nil
	})
	if reported := p.purge(t, "source"); reported != purged {
		t.Errorf("%d messages are purged, want %d", reported, purged)
	}
	c.Restart(2)
	c.AwaitReady(2)
	// What comes later arrives, and nothing that was before it.
	p.publish(t, "source", 1)
	p.consume(t, "source", 1, brokerv1.Outcome_OUTCOME_DISCARD)
	testcluster.Poll(t, "the later dead letter", func() error {
		s := p.stats(t, "source").GetStats()
		if s.GetMessages() != 0 || s.GetDeadLetterConfirmed() == 0 {
			return fmt.Errorf("the source has %v", s)
		}
		return nil
	})
	if n := p.stats(t, "dead").GetStats().GetMessages(); n != 1 {
		t.Errorf("%d dead letters have arrived, want the later one alone", n)
	}
}
