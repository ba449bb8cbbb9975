package broker

import "github.com/quorate/quorate/cluster/clients"

// Counters are what a node has counted as gateway since its start (ST-2).
type Counters struct {
	Published           uint64 // messages routed to at least one queue
	Confirmed           uint64
	Rejected            uint64
	Refusals            map[string]uint64 // messages that queues did not take, by cause
	UnroutableReturned  uint64
	UnroutableDropped   uint64
	Undecidable         uint64 // part of Rejected: this node could not route them (EX-16)
	Invalid             uint64
	LoginsRefused       uint64
	LoginsUnseen        uint64 // refused unchecked, after too many wrong ones from their address
	DeadLetterConfirmed uint64 // dead letters that every target has stored
	DeadLetterLost      uint64 // at-most-once copies that no target took (DL-10)
	PolicyTimeouts      uint64 // matches of patterns in policies that took too long and were stopped (C-8)
	PermissionTimeouts  uint64 // the same for permissions
	UnknownArguments    uint64 // of declarations (C-9)
	Alarms              uint64 // how often publishers were held back (PUB-10)
	// Messages that clients were given, to consumers and one by one (DEL-5), by whether they acknowledge them.
	Consumed, ConsumedAutoAck, Got, GotAutoAck uint64
	Churn                                      clients.Churn
	// QueuesDeclared counts declares that may create a queue, be it there or not; QueuesCreated and QueuesDeleted count those
	// that came and went by commands of this node.
	QueuesDeclared, QueuesCreated, QueuesDeleted uint64
}

// Counters returns the figures.
func (b *Broker) Counters() Counters {
	c, deadLetters := &b.clients.Counters, b.cluster.DeadLetterFigures()
	created, deleted := b.cluster.Catalog().QueueChurn()
	return Counters{
		Published: c.Published.Load(), Confirmed: c.Confirmed.Load(), Rejected: c.Rejected.Load(), Refusals: c.Refusals.ByCause(),
		UnroutableReturned: c.UnroutableReturned.Load(), UnroutableDropped: c.UnroutableDropped.Load(),
		Undecidable: c.Undecidable.Load(), Invalid: c.Invalid.Load(), LoginsRefused: c.LoginsRefused.Load(),
		UnknownArguments:    c.UnknownArguments.Load(),
		LoginsUnseen:        c.LoginsUnseen.Load(),
		DeadLetterConfirmed: deadLetters.Confirmed, DeadLetterLost: deadLetters.Lost.Sum(), Alarms: c.PublishersHeld.Load(),
		Consumed: c.Delivered.Consumed.Load(), ConsumedAutoAck: c.Delivered.ConsumedAutoAck.Load(),
		Got: c.Delivered.Got.Load(), GotAutoAck: c.Delivered.GotAutoAck.Load(),
		PolicyTimeouts: b.policies.AllTimeouts(), PermissionTimeouts: c.PermissionTimeouts.Load(),
		Churn: b.clients.Churn(), QueuesDeclared: c.QueuesDeclared.Load(), QueuesCreated: created, QueuesDeleted: deleted,
	}
}
