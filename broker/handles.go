package broker

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/quorumq"
)

// enqueuer is what publishing needs of a *gateway.Queue; see there for the contract.
type enqueuer interface {
	Enqueue(ctx context.Context, m quorumq.NewMessage, body []byte, done func(error)) error
	EnqueueUnit(ctx context.Context, parts []gateway.Part) error
}

// handles caches the ends of queues, so that a publish takes no lock: a UID names one
// incarnation for ever, so an entry can only become useless, never wrong.
type handles struct {
	open  func(id.QueueUID) (enqueuer, error)
	view  func() *catalog.View
	rated func()     // is called for a queue whose arguments bound what is published into it
	mu    sync.Mutex // held to replace byUID
	// byUID is replaced, never changed.
	byUID atomic.Pointer[map[id.QueueUID]handle]
}

// handle is the end of a queue with what never changes about it.
type handle struct {
	enqueuer
	priorities catalog.Priorities // PR-1
	rated      bool               // its arguments bound what is published into it (VH-15)
}

// known takes no lock: each publish asks, and the map is never changed in place.
func (h *handles) known(uid id.QueueUID) (handle, bool) {
	if m := h.byUID.Load(); m != nil {
		q, ok := (*m)[uid]
		return q, ok
	}
	return handle{}, false
}

// put adds an entry and forgets those of queues for which alive is false.
func (h *handles) put(uid id.QueueUID, q handle, alive func(id.QueueUID) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := make(map[id.QueueUID]handle)
	if m := h.byUID.Load(); m != nil {
		maps.Copy(next, *m)
		maps.DeleteFunc(next, func(uid id.QueueUID, _ handle) bool { return !alive(uid) })
	}
	next[uid] = q
	h.byUID.Store(&next)
}

// of returns the end of a queue, opened at its first publish. Two that come at once open it twice, which is
// harmless: both ends are the gateway's one.
func (h *handles) of(uid id.QueueUID) (handle, error) {
	if q, ok := h.known(uid); ok {
		return q, nil
	}
	end, err := h.open(uid)
	if err != nil {
		return handle{}, err
	}
	v := h.view()
	q := handle{enqueuer: end}
	if rec, ok := v.QueueByUID(uid); ok {
		q.priorities = rec.Priorities()
		if q.rated = policy.ArgumentsRate(rec.Arguments); q.rated {
			h.rated()
		}
	}
	h.put(uid, q, func(uid id.QueueUID) bool {
		_, ok := v.QueueByUID(uid)
		return ok
	})
	return q, nil
}
