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

// enqueuer is what publishing needs of a *gateway.Queue, which documents the contract.
type enqueuer interface {
	Enqueue(ctx context.Context, m quorumq.NewMessage, body []byte, done func(error)) error
	EnqueueUnit(ctx context.Context, parts []gateway.Part) error
}

// handles caches the gateway's ends of queues, so that a publish takes no lock. A UID never names another queue, so an
// entry can become useless, but never wrong.
type handles struct {
	open  func(id.QueueUID) (enqueuer, error)
	view  func() *catalog.View
	rated func()     // called for a queue whose arguments limit publishing (VH-15)
	mu    sync.Mutex // held to replace byUID
	// byUID points to a map that is replaced, never changed.
	byUID atomic.Pointer[map[id.QueueUID]handle]
}

// newHandles returns a cache that is empty.
func newHandles(open func(id.QueueUID) (enqueuer, error), view func() *catalog.View, rated func()) *handles {
	return &handles{open: open, view: view, rated: rated}
}

// handle is the gateway's end of a queue, with what never changes about the queue.
type handle struct {
	enqueuer
	priorities catalog.Priorities // PR-1
	rated      bool               // the queue's arguments limit publishing (VH-15)
}

// known takes no lock, because every publish asks; the map is never changed in place.
func (h *handles) known(uid id.QueueUID) (handle, bool) {
	if m := h.byUID.Load(); m != nil {
		q, ok := (*m)[uid]
		return q, ok
	}
	return handle{}, false
}

// put adds an entry, and removes those of queues for which alive returns false.
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

// of returns the gateway's end of a queue and opens it at the first publish. Two concurrent publishes may both open it.
// This is harmless, because the gateway has one end and returns it to both.
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
