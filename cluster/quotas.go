package cluster

import (
	"iter"
	"sync"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// storedFor is how long a sum over queues is used again.
const storedFor = 500 * time.Millisecond

// storedBytes are what the queues that this node leads hold of each vhost and user with a limit of it: one
// sum is for all who ask in a short time. mu guards the rest.
type storedBytes struct {
	mu sync.Mutex
	at time.Duration // of the monotonic clock
	of map[clients.QuotaSubject]uint64
}

// limitsStored reports whether something bounds what the queues of a vhost, or those that a user has declared, hold.
func limitsStored(v *catalog.View, of clients.QuotaSubject) bool {
	if of.User != "" {
		u, ok := v.User(of.User)
		return ok && u.MaxStoredBytes != catalog.Unlimited
	}
	h, ok := v.VHost(of.VHost)
	return ok && h.MaxStoredBytes != catalog.Unlimited
}

// storedSums adds up what queues hold, for each vhost and user with a limit of it.
func storedSums(v *catalog.View, queues iter.Seq2[id.QueueUID, *quorumq.Overview]) map[clients.QuotaSubject]uint64 {
	sums := map[clients.QuotaSubject]uint64{}
	for h := range v.VHosts() {
		if of := (clients.QuotaSubject{VHost: h.Name}); limitsStored(v, of) {
			sums[of] = 0
		}
	}
	for u := range v.Users() {
		if of := (clients.QuotaSubject{User: u.Name}); limitsStored(v, of) {
			sums[of] = 0
		}
	}
	for uid, o := range queues {
		r, ok := v.QueueByUID(uid)
		if !ok {
			continue
		}
		holds := o.ReadyBytes + o.UnsettledBytes + o.DelayedBytes + o.BacklogBytes
		add := func(of clients.QuotaSubject) {
			if n, limited := sums[of]; limited {
				sums[of] = n + holds
			}
		}
		add(clients.QuotaSubject{VHost: r.VHost})
		if u, ok := v.DeclarerOf(r); ok {
			add(clients.QuotaSubject{User: u.Name})
		}
	}
	return sums
}
