package broker

import (
	"sync/atomic"

	"github.com/quorate/quorate/cluster"
)

// counters are this node's as gateway (ST-2).
type counters struct {
	published, confirmed, rejected, returned, unroutable, undecidable, invalid, loginsRefused, permissionTimeouts, unknownArguments atomic.Uint64
}

// Counters are a node's figures as gateway since its start (ST-2).
type Counters struct {
	Published           uint64 // messages routed to at least one queue
	Confirmed           uint64
	Rejected            uint64
	UnroutableReturned  uint64
	UnroutableDropped   uint64
	Undecidable         uint64 // of the rejected, those that this node could not route (EX-16)
	Invalid             uint64
	LoginsRefused       uint64
	LoginsUnseen        uint64 // refused because too many wrong ones came from their address
	DeadLetterConfirmed uint64 // dead letters that every target has
	DeadLetterLost      uint64 // at-most-once copies that no target took (DL-10)
	PolicyTimeouts      uint64 // matches of policies' patterns that were broken off (C-8)
	PermissionTimeouts  uint64 // the same of permissions
	UnknownArguments    uint64 // of declarations (C-9)
	Alarms              uint64 // times that publishers were held back (PUB-10)
}

// Counters returns the figures.
func (b *Broker) Counters() Counters {
	c := &b.counters
	var letters cluster.DeadLetterFigures
	if part := b.cluster.Load(); part != nil {
		letters = part.DeadLetterFigures()
	}
	return Counters{
		Published: c.published.Load(), Confirmed: c.confirmed.Load(), Rejected: c.rejected.Load(),
		UnroutableReturned: c.returned.Load(), UnroutableDropped: c.unroutable.Load(),
		Undecidable: c.undecidable.Load(), Invalid: c.invalid.Load(), LoginsRefused: c.loginsRefused.Load(),
		UnknownArguments:    c.unknownArguments.Load(),
		LoginsUnseen:        b.logins.tries.unseenTries(),
		DeadLetterConfirmed: letters.Confirmed, DeadLetterLost: letters.Lost.Sum(), Alarms: b.alarms.raised.Load(),
		PolicyTimeouts: b.policies.AllTimeouts(), PermissionTimeouts: c.permissionTimeouts.Load(),
	}
}

// NamedCounters returns the figures by name; for cluster.Config.Counters.
func (b *Broker) NamedCounters() map[string]uint64 {
	c := b.Counters()
	return map[string]uint64{
		"published": c.Published, "confirmed": c.Confirmed, "rejected": c.Rejected,
		"unroutable_returned": c.UnroutableReturned, "unroutable_dropped": c.UnroutableDropped, "undecidable": c.Undecidable, "invalid": c.Invalid,
		"logins_refused": c.LoginsRefused, "logins_unseen": c.LoginsUnseen, "dead_letters_confirmed": c.DeadLetterConfirmed, "dead_letters_lost": c.DeadLetterLost,
		"unknown_arguments": c.UnknownArguments, "publishers_held": c.Alarms, "policy_pattern_timeouts": c.PolicyTimeouts, "permission_pattern_timeouts": c.PermissionTimeouts,
	}
}
