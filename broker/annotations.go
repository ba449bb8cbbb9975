package broker

import (
	"maps"
	"slices"

	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// annotations holds the annotations that unacked deliveries came with. The queue keeps one
// table of annotations per message, the newest, so that what a client adds has to
// contain what was there before (DEL-11). Deliveries with annotations are rare.
type annotations map[uint64]message.Table

// decide takes a decision about deliveries to the queue; added are the annotations that
// are in d. Notes about the deliveries end with it.
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
