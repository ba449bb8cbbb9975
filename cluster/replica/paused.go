package replica

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// paused are the consumers to which nothing is delivered before their gateway asks, for it
// has no room. mu guards the set.
type paused struct {
	count atomic.Int64 // of the set: every delivery asks

	mu    sync.Mutex
	set   map[quorumq.ConsumerKey]struct{}
	sweep int // the size at which consumers that are gone are looked for
}

// minSweep is how many consumers are held back before gone ones are looked for.
const minSweep = 64

// add keeps count in step with set, which readers look at first.
func (b *paused) add(c quorumq.ConsumerKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.set == nil {
		b.set = map[quorumq.ConsumerKey]struct{}{}
	}
	b.set[c] = struct{}{}
	b.count.Store(int64(len(b.set)))
}

// remove keeps count in step with set, which readers look at first.
func (b *paused) remove(c quorumq.ConsumerKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.set, c)
	b.count.Store(int64(len(b.set)))
}

// holds takes no lock while nothing is paused, which is nearly always.
func (b *paused) holds(c quorumq.ConsumerKey) bool {
	if b.count.Load() == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, there := b.set[c]
	return there
}

// suspects returns all, once there are twice as many as when it was last: some may be gone.
func (b *paused) suspects() []quorumq.ConsumerKey {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.set) < max(b.sweep, minSweep) {
		return nil
	}
	b.sweep = 2 * len(b.set)
	return slices.Collect(maps.Keys(b.set))
}

// holds is Host.Held on a worker.
func (q *Member) holds(c quorumq.ConsumerKey, after quorumq.MsgID, room int64) (x traffic.Holding, err error) {
	defer func() {
		if !x.Cut {
			q.back.remove(c)
		}
	}()
	l := q.led.Load()
	if l == nil {
		leader, _ := q.group.Leader()
		if leader == q.h.cfg.Node {
			leader = "" // its Lead command is on the way
		}
		return x, &raftfsm.NotLeaderError{Group: q.uid.Group(), Leader: leader}
	}
	if !l.unsent.forget(c, 0) {
		return x, raftfsm.ErrBusy // its session ends
	}
	var ds []quorumq.Delivery
	known := false
	suspects := q.back.suspects()
	q.group.Read(func() {
		ds = q.machine.queue.Assigned(nil, c, after)
		x.Last, known = q.machine.queue.LastMsgID(c)
		suspects = slices.DeleteFunc(suspects, func(o quorumq.ConsumerKey) bool {
			_, there := q.machine.queue.LastMsgID(o)
			return there
		})
	})
	for _, gone := range suspects {
		q.back.remove(gone)
	}
	if !known {
		return traffic.Holding{}, fmt.Errorf("%w: the queue has no such consumer", traffic.ErrConsumerGone)
	}
	q.loadHeld(&x, ds, room)
	return x, nil
}

// loadHeld reads what is held, as much as there is room for: one message at least, if there
// is any.
func (q *Member) loadHeld(x *traffic.Holding, ds []quorumq.Delivery, room int64) {
	most := int64(q.h.cfg.MaxHeldBytes)
	if room != traffic.NoRoomLimit {
		most = min(most, room)
	}
	x.Deliveries = make([]traffic.Delivery, 0, len(ds))
	bytes := int64(0)
	for _, d := range ds {
		h, err := q.load(d)
		if err != nil {
			continue // settled meanwhile
		}
		if bytes += h.Size(); room == 0 || bytes > most && len(x.Deliveries) > 0 {
			x.Last, x.Cut = d.MsgID-1, room != traffic.NoRoomLimit
			if !x.Cut {
				q.lose(d)
			}
			return
		}
		x.Deliveries = append(x.Deliveries, h)
	}
}
