package workload

import (
	"testing"

	"github.com/quorate/quorate/chaos/history"
)

// A message is discarded as often as its number says, whatever deaths it carries: a node that does not count them does
// not let it go round for ever.
func TestRetryLoopDecides(t *testing.T) {
	loop, _ := RetryLoop().New(&World{}).(*retryLoop)
	for id := range uint64(2 * loopRounds) {
		discards := uint64(0)
		for loop.decide(&history.Event{Publisher: 1, ID: id}) == history.Discard {
			if discards++; discards == 2*loopRounds {
				break
			}
		}
		if discards != id%loopRounds {
			t.Errorf("message %d is discarded %d times", id, discards)
		}
		if o := loop.decide(&history.Event{Publisher: 1, ID: id}); o != history.Ack {
			t.Errorf("message %d comes again when it was acked: %s", id, o)
		}
	}
}
