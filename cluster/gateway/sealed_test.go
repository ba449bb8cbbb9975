package gateway

import (
	"errors"
	"testing"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
)

// a publisher gets the same cause from a queue whose deletion is decided, whether or not its node's view shows
// the deletion yet; and a full queue that is being emptied is full.
func TestSealedCause(t *testing.T) {
	t.Parallel()
	for name, seen := range map[string]bool{"an older view": false, "a view that shows the deletion": true} {
		for _, sealed := range []bool{true, false} {
			q, l := ledQueue(t)
			config := quorumq.DefaultConfig()
			config.Rules = quorumq.NewestRules
			commands := []quorumq.Command{&quorumq.Configure{Config: config}, &quorumq.Seal{}}
			if !sealed {
				config.MaxLength, config.Overflow = 0, quorumq.OverflowRejectPublish
				commands = []quorumq.Command{&quorumq.Configure{Config: config}}
			}
			for _, c := range commands {
				l.index++
				l.queue.Apply(quorumq.Meta{Index: l.index}, c)
			}
			if seen {
				q.drainDeletes()
			}
			answered := make(chan error, 1)
			l.publish(q, func(err error) { answered <- err })
			l.apply(<-l.submitted)
			if refused := <-answered; !errors.Is(refused, traffic.ErrRefused) || errors.Is(refused, traffic.ErrDrainDeleting) != sealed {
				t.Errorf("%s, sealed %v: %v", name, sealed, refused)
			}
		}
	}
}
