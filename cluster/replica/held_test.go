package replica

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
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

// As long as the first message cannot be read, its consumer waits, and others do not: with an error their gateway would
// start over with all of them. Of two requests of a consumer the newer one waits, and none is left when the member
// closes.
func TestHeldWaitsForUnreadable(t *testing.T) {
	t.Parallel()
	h, q, c := heldOnly(t, strings.Repeat("x", 20_000), "cached")
	other := quorumq.ConsumerKey{SessionKey: quorumq.SessionKey{Node: "b", Epoch: 1, Session: 2}, Tag: traffic.ConsumerTag}
	h.do(q.uid, &quorumq.Checkout{Consumer: other})
	if err := h.storage.DropQueue(q.uid); err != nil { // as for a member that is being removed
		t.Fatal(err)
	}
	ask := func() <-chan error {
		answered := make(chan error, 1)
		h.Held(q.uid, c, 0, traffic.NoRoomLimit, func(_ traffic.Holding, err error) { answered <- err })
		return answered
	}
	first := ask()
	for range 3 { // tries
		tried := make(chan struct{})
		time.AfterFunc(hostRetry, func() { q.box.Post(func() { close(tried) }) })
		<-tried
		if x, err := h.held(q, other, traffic.NoRoomLimit); err != nil || len(x.Deliveries) != 0 {
			t.Errorf("the other consumer is answered with %d deliveries, %v", len(x.Deliveries), err)
		}
	}
	select {
	case err := <-first:
		t.Fatalf("it is answered: %v", err)
	default:
	}
	second := ask()
	if err := <-first; !errors.Is(err, raftfsm.ErrBusy) {
		t.Errorf("the older request is answered with %v", err)
	}
	h.turn(q.uid, func() {
		if len(q.resumes) != 1 || !q.back.holds(c) || q.back.holds(other) {
			t.Errorf("%d requests wait; the consumers are paused: %v, %v", len(q.resumes), q.back.holds(c), q.back.holds(other))
		}
	})
	h.stop()
	if err := <-second; !errors.Is(err, raftfsm.ErrStopped) && !isNotLeader(err) {
		t.Errorf("when the member has closed, it is answered with %v", err)
	}
}

// misplace takes the entry of a message out of the log, as if the log had lost it without a sign of damage.
func (h *testHost) misplace(uid id.QueueUID, d quorumq.Delivery) {
	h.t.Helper()
	log, err := h.storage.Group(uid.Group())
	if err == nil {
		err = log.DeleteRange(1, d.Body.Index)
	}
	if err == nil {
		err = log.Retain(d.Body.Index, func(func(uint64, uint64) bool) {})
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// A leader in whose log a message is missing that a consumer holds has lost what it had stored: it stops at once, so that
// another member leads, and is to be rebuilt. The gateway looks for the next leader. It is found when the gateway asks,
// when the message is to be delivered again, and when it is the answer to a Get.
func TestLeaderStopsWithoutHeldMessage(t *testing.T) {
	t.Parallel()
	for name, find := range map[string]func(h *testHost, q *Member, c quorumq.ConsumerKey, d quorumq.Delivery){
		"resume": func(h *testHost, q *Member, c quorumq.ConsumerKey, _ quorumq.Delivery) {
			if x, err := h.held(q, c, traffic.NoRoomLimit); !isNotLeader(err) || len(x.Deliveries) > 0 {
				h.t.Errorf("answered with %d deliveries, %v", len(x.Deliveries), err)
			}
		},
		"redelivery": func(h *testHost, q *Member, _ quorumq.ConsumerKey, d quorumq.Delivery) {
			h.turn(q.uid, func() {
				q.lose(d)
				q.redeliver()
			})
		},
		"get": func(h *testHost, q *Member, _ quorumq.ConsumerKey, d quorumq.Delivery) {
			answered := make(chan error, 1)
			h.Load(q.uid, d, func(_ traffic.Delivery, err error) { answered <- err })
			if err := <-answered; err == nil {
				h.t.Error("it was read")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, q, c := heldOnly(t, strings.Repeat("x", 20_000), "cached")
			var d quorumq.Delivery
			q.Read(func(s *quorumq.Queue) { d = s.Assigned(nil, c, 0)[0] })
			h.misplace(q.uid, d)
			find(h, q, c, d)
			if err := q.Group().Failed(); !errors.Is(err, wal.ErrLost) || q.Led() != nil {
				t.Errorf("the member leads: %v; it failed with %v", q.Led() != nil, err)
			}
			if got := h.LostMembers(); !slices.Equal(got, []id.QueueUID{q.uid}) {
				t.Errorf("to be rebuilt: %d", got)
			}
			select {
			case <-h.Mends():
			case <-time.After(time.Minute):
				t.Error("nobody is notified that it is to be rebuilt")
			}
		})
	}
}

// A message that is gone because its consumer has settled it meanwhile is no sign of damage.
func TestLeaderGoesOnWithoutSettledMessage(t *testing.T) {
	t.Parallel()
	h, q, c := heldOnly(t, strings.Repeat("x", 20_000), "cached")
	var d quorumq.Delivery
	q.Read(func(s *quorumq.Queue) { d = s.Assigned(nil, c, 0)[0] })
	h.do(q.uid, &quorumq.Settle{Consumer: c, Ranges: []quorumq.MsgIDRange{{First: d.MsgID, Last: d.MsgID}}})
	h.misplace(q.uid, d)
	h.turn(q.uid, func() { q.deliver([]quorumq.Delivery{d}, nil) })
	if x, err := h.held(q, c, traffic.NoRoomLimit); err != nil || len(x.Deliveries) != 1 || q.Group().Failed() != nil {
		t.Errorf("%d deliveries, %v; it failed with %v", len(x.Deliveries), err, q.Group().Failed())
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

// The same for a dead letter, which the forwarder reads; one that has been settled meanwhile is no sign of damage.
func TestLeaderStopsWithoutDeadLetter(t *testing.T) {
	t.Parallel()
	for _, settled := range []bool{false, true} {
		t.Run(fmt.Sprintf("settled %v", settled), func(t *testing.T) {
			t.Parallel()
			h, q, c := heldOnly(t, strings.Repeat("x", 20_000), "cached")
			var d quorumq.Delivery
			config := quorumq.DefaultConfig()
			q.Read(func(s *quorumq.Queue) { d = s.Assigned(nil, c, 0)[0] })
			config.DeadLetter, config.Overflow = quorumq.DeadLetterAtLeastOnce, quorumq.OverflowRejectPublish
			h.do(q.uid, &quorumq.Configure{Config: config})
			h.do(q.uid, &quorumq.Discard{Consumer: c, Ranges: []quorumq.MsgIDRange{{First: d.MsgID, Last: d.MsgID}}})
			led := q.Led()
			all, _, err := led.Backlog(nil, 0, 10)
			if err != nil || len(all) != 1 || all[0].Body != d.Body {
				t.Fatalf("the backlog has %+v, %v", all, err)
			}
			if settled {
				h.do(q.uid, &quorumq.BacklogSettle{Ranges: []quorumq.SeqRange{{First: all[0].Seq, Last: all[0].Seq}}})
			}
			h.misplace(q.uid, d)
			if _, err := led.Body(d.Body); !errors.Is(err, raft.ErrLogNotFound) {
				t.Errorf("reading it ends with %v", err)
			}
			if err := q.Group().Failed(); errors.Is(err, wal.ErrLost) == settled {
				t.Errorf("the member failed with %v", err)
			}
		})
	}
}
