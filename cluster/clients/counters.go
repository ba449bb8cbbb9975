package clients

import "sync/atomic"

// Counters are the node's figures as gateway since its start (ST-2).
type Counters struct {
	Published          atomic.Uint64 // messages routed to at least one queue
	Confirmed          atomic.Uint64
	Rejected           atomic.Uint64
	Refusals           Refusals
	UnroutableReturned atomic.Uint64
	UnroutableDropped  atomic.Uint64
	Undecidable        atomic.Uint64 // of the rejected, those that this node could not route (EX-16)
	Invalid            atomic.Uint64
	LoginsRefused      atomic.Uint64
	LoginsUnseen       atomic.Uint64 // refused because too many wrong ones came from their address
	Delivered          Deliveries
	PermissionTimeouts atomic.Uint64 // matches of permissions' patterns that were broken off (C-8)
	UnknownArguments   atomic.Uint64 // of declarations (C-9)
	PublishersHeld     atomic.Uint64 // times that publishers were held back (PUB-10)
	QueuesDeclared     atomic.Uint64 // declares that may create a queue, be it there or not
}

// Deliveries counts the messages that clients were given, by how they are acknowledged and how clients asked for them.
type Deliveries struct {
	Consumed, ConsumedAutoAck atomic.Uint64 // by consumers
	Got, GotAutoAck           atomic.Uint64 // one by one (DEL-5)
}

// Refusals counts messages by why a queue did not take them. One that several queues refuse counts for each.
type Refusals struct {
	MaxLen      atomic.Uint64 // a length limit (LEN-4)
	NoSpace     atomic.Uint64 // too little room on the disks of the queue's nodes
	Unavailable atomic.Uint64 // no leader in time (PUB-5), or the queue goes
	Unknown     atomic.Uint64 // nobody knows whether the queue has it
}

// ByCause returns the counts by the words that metrics have for them.
func (r *Refusals) ByCause() map[string]uint64 {
	return map[string]uint64{
		"maxlen": r.MaxLen.Load(), "no_space": r.NoSpace.Load(), "unavailable": r.Unavailable.Load(), "unknown": r.Unknown.Load(),
	}
}

// Named returns the figures by the names under which nodes exchange them.
func (c *Counters) Named() map[string]uint64 {
	return map[string]uint64{
		"published": c.Published.Load(), "confirmed": c.Confirmed.Load(), "rejected": c.Rejected.Load(),
		"unroutable_returned": c.UnroutableReturned.Load(), "unroutable_dropped": c.UnroutableDropped.Load(),
		"undecidable": c.Undecidable.Load(), "invalid": c.Invalid.Load(),
		"logins_refused": c.LoginsRefused.Load(), "logins_unseen": c.LoginsUnseen.Load(),
		"unknown_arguments": c.UnknownArguments.Load(), "publishers_held": c.PublishersHeld.Load(), "queues_declared": c.QueuesDeclared.Load(),
		"permission_pattern_timeouts": c.PermissionTimeouts.Load(),
		"consumed":                    c.Delivered.Consumed.Load(), "consumed_auto_ack": c.Delivered.ConsumedAutoAck.Load(),
		"got": c.Delivered.Got.Load(), "got_auto_ack": c.Delivered.GotAutoAck.Load(),
		"refused_maxlen": c.Refusals.MaxLen.Load(), "refused_no_space": c.Refusals.NoSpace.Load(),
		"refused_unavailable": c.Refusals.Unavailable.Load(), "refused_unknown": c.Refusals.Unknown.Load(),
	}
}
