package replica

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/wal"
)

// heldOnly starts a host with a queue whose consumer, at another node, holds these messages and has got none of them.
func heldOnly(t *testing.T, bodies ...string) (h *testHost, q *Member, c quorumq.ConsumerKey) {
	t.Helper()
	var links cutTransport
	links.down.Store(true)
	h = newTestHost(t, func(c *Config) { links.Transport, c.Transport, c.BodyCacheBytes = c.Transport, &links, 10_000 })
	uid := h.declare("q")
	h.Inbound(transport.Peer{Node: "b", Epoch: 1}, true)
	c = h.consume(uid, "b")
	for i, b := range bodies {
		h.publish(uid, quorumq.Seq(i+1), b)
	}
	return h, h.Member(uid), c
}

// held returns the answer to a resume of the consumer.
func (h *testHost) held(q *Member, c quorumq.ConsumerKey, room int64) (x traffic.Holding, err error) {
	h.t.Helper()
	done := make(chan struct{})
	h.Held(q.uid, c, 0, room, func(y traffic.Holding, failed error) { x, err = y, failed; close(done) })
	<-done
	return x, err
}

// DEL-12: to the gateway an id that is missing in the answer to a resume is settled. So a message that the consumer
// still holds and that cannot be read, for whatever reason, is not left out: the answer ends before it.
func TestHeldEndsBeforeUnreadable(t *testing.T) {
	t.Parallel()
	tooLarge := strings.Repeat("x", 20_000) // for the cache
	for _, room := range []int64{traffic.NoRoomLimit, 1 << 20} {
		t.Run(fmt.Sprintf("room %d", room), func(t *testing.T) {
			t.Parallel()
			h, q, c := heldOnly(t, "cached", tooLarge, "cached too")
			if x, err := h.held(q, c, room); err != nil || len(x.Deliveries) != 3 || x.Last != 3 || x.Cut {
				t.Fatalf("before: %d up to %d, cut %v, %v", len(x.Deliveries), x.Last, x.Cut, err)
			}
			if err := h.storage.DropQueue(q.uid); err != nil { // as for a member that is being removed
				t.Fatal(err)
			}
			x, err := h.held(q, c, room)
			if err != nil || len(x.Deliveries) != 1 || x.Last != 1 || x.Cut != (room != traffic.NoRoomLimit) {
				t.Errorf("%d up to %d, cut %v, %v", len(x.Deliveries), x.Last, x.Cut, err)
			}
		})
	}
}

// The same for the first message: the gateway gets an error, and asks again.
func TestHeldFailsAtUnreadable(t *testing.T) {
	t.Parallel()
	h, q, c := heldOnly(t, strings.Repeat("x", 20_000), "cached")
	if err := h.storage.DropQueue(q.uid); err != nil {
		t.Fatal(err)
	}
	if x, err := h.held(q, c, traffic.NoRoomLimit); !errors.Is(err, wal.ErrDeleted) || x.Last != 0 || len(x.Deliveries) != 0 {
		t.Errorf("%d up to %d, %v", len(x.Deliveries), x.Last, err)
	}
}

// What was settled since the queue was asked is left out, also if its body is gone.
func TestHeldLeavesOutSettled(t *testing.T) {
	t.Parallel()
	h, q, c := heldOnly(t, "cached", strings.Repeat("x", 20_000), "cached too")
	var x traffic.Holding
	var ds []quorumq.Delivery
	q.Read(func(s *quorumq.Queue) {
		ds = s.Assigned(nil, c, 0)
		x.Last, _ = s.LastMsgID(c)
	})
	h.do(q.uid, &quorumq.Settle{Consumer: c, Ranges: []quorumq.MsgIDRange{{First: 2, Last: 2}}})
	if err := h.storage.DropQueue(q.uid); err != nil {
		t.Fatal(err)
	}
	if err := q.loadHeld(&x, ds, traffic.NoRoomLimit); err != nil || len(x.Deliveries) != 2 || x.Deliveries[1].MsgID != 3 || x.Last != 3 {
		t.Errorf("%d up to %d, %v", len(x.Deliveries), x.Last, err)
	}
}
