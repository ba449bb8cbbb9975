package replica

import (
	"slices"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
)

// unsent holds, for one leadership, the deliveries to consumers of other nodes that certainly never
// left this node: they found no stream, or waited for one that broke. Whoever sends deliveries
// again must call forget first. It belongs to the worker that runs the queue's mailbox.
type unsent struct {
	ids map[quorumq.ConsumerKey][]quorumq.MsgIDRange
	// closing has the sessions whose end is being proposed together with what never left. Nothing more may be sent to
	// them.
	closing map[quorumq.SessionKey]struct{}
}

func newUnsent() unsent {
	return unsent{ids: map[quorumq.ConsumerKey][]quorumq.MsgIDRange{}, closing: map[quorumq.SessionKey]struct{}{}}
}

// add records deliveries that did not leave at their first attempt.
func (u *unsent) add(ds []traffic.Delivery) {
	for i := range ds {
		k, m := ds[i].Consumer, ds[i].MsgID
		rs := u.ids[k]
		if n := len(rs); n > 0 && rs[n-1].Last+1 == m {
			rs[n-1].Last = m
			continue
		}
		u.ids[k] = append(rs, quorumq.MsgIDRange{First: m, Last: m})
	}
}

// forget must be called before deliveries from a message on are sent to a consumer again. It
// returns false if they must not be sent.
func (u *unsent) forget(k quorumq.ConsumerKey, from quorumq.MsgID) bool {
	if _, closing := u.closing[k.SessionKey]; closing {
		return false
	}
	kept := u.ids[k][:0]
	for _, r := range u.ids[k] {
		if r.First < from {
			kept = append(kept, quorumq.MsgIDRange{First: r.First, Last: min(r.Last, from-1)})
		}
	}
	if len(kept) == 0 {
		delete(u.ids, k)
	} else {
		u.ids[k] = kept
	}
	return true
}

// of returns which deliveries of a session's consumer never left.
func (u *unsent) of(s quorumq.SessionKey) quorumq.Unsent {
	k := quorumq.ConsumerKey{SessionKey: s, Tag: traffic.ConsumerTag}
	return quorumq.Unsent{Tag: k.Tag, Ranges: slices.Clone(u.ids[k])}
}

// closed removes a session that has ended.
func (u *unsent) closed(s quorumq.SessionKey) {
	delete(u.closing, s)
	delete(u.ids, quorumq.ConsumerKey{SessionKey: s, Tag: traffic.ConsumerTag})
}

// keep removes consumers that the queue no longer has.
func (u *unsent) keep(has func(quorumq.ConsumerKey) bool) {
	for k := range u.ids {
		if !has(k) {
			delete(u.ids, k)
		}
	}
}
