package broker

import (
	"maps"
	"slices"

	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// annotations holds the annotations of unacked deliveries, by delivery id. The queue keeps one
// table of annotations for each message, the newest. So a table that a client adds must also
// contain the older annotations (DEL-11). Deliveries with annotations are rare.
type annotations map[uint64]message.Table

// decide passes a decision about the deliveries in r to the queue, by calling to. added are the
// annotations that d already contains; decide merges them with the older ones of each delivery.
// Then it forgets these deliveries.
func (n annotations) decide(r quorumq.MsgIDRange, d gateway.Decision, added message.Table, to func(quorumq.MsgIDRange, gateway.Decision)) {
	if len(n) == 0 {
		to(r, d)
		return
	}
	for _, id := range slices.Sorted(maps.Keys(n)) {
		m := quorumq.MsgID(id)
		if m < r.First || m > r.Last {
			continue
		}
		before := n[id]
		delete(n, id)
		if len(added) == 0 {
			continue // the queue keeps what it has
		}
		if r.First < m {
			to(quorumq.MsgIDRange{First: r.First, Last: m - 1}, d)
		}
		merged := d
		merged.Annotations = message.AppendTable(nil, message.MergedAnnotations(before, added))
		to(quorumq.MsgIDRange{First: m, Last: m}, merged)
		if r.First = m + 1; r.First > r.Last {
			return
		}
	}
	to(r, d)
}
