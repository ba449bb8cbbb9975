package check

import (
	"testing"

	"github.com/quorate/quorate/chaos/history"
)

// A queue that is not empty holds what nobody took, and no more than was published.
func TestLengths(t *testing.T) {
	const queue = "full"
	for messages, breaks := range map[uint64]bool{0: true, 1: false, 2: false, 3: true} {
		events := []history.Event{
			{Kind: history.Declared, Queue: queue, Spec: &history.Queue{DeliveryLimit: -1}},
			{Kind: history.Published, Publisher: 1, ID: 1, Queues: []string{queue}}, // stays
			{Kind: history.Published, Publisher: 1, ID: 2, Queues: []string{queue}}, // acked
			{Kind: history.Published, Publisher: 1, ID: 3, Queues: []string{queue}}, // refused
			{Kind: history.Published, Publisher: 1, ID: 4, Queues: []string{queue}}, // perhaps
			answered(history.Confirmed, 1), answered(history.Confirmed, 2), answered(history.Refused, 3), answered(history.Unknown, 4),
			delivered(2, queue, "c", 0, 0), settled(history.Deciding, 2, queue, "c", history.Ack), settled(history.Decided, 2, queue, "c", history.Ack),
			{Kind: history.Left, Queue: queue, Messages: messages},
		}
		g := lengthsAddUp(read(events))
		if g.Checked != 1 || (len(g.Broken) > 0) != breaks {
			t.Errorf("%d messages: %+v", messages, g)
		}
		events[len(events)-1].Note = "nobody answers"
		if g := lengthsAddUp(read(events)); g.Checked != 0 {
			t.Errorf("a length that nobody knows: %+v", g)
		}
	}
}
