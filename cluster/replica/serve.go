package replica

import (
	"context"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// Submit passes a command to the local member. done is called exactly once, perhaps on the apply
// path, and must not block. Errors: *raftfsm.NotLeaderError, raftfsm.ErrBusy, raftfsm.ErrStopped,
// raftfsm.ErrUnknownOutcome, traffic.ErrNoSuchQueue.
func (h *Host) Submit(q id.QueueUID, c raftfsm.Command, done func(quorumq.Reply, error)) {
	m := h.Member(q)
	if m == nil {
		h.Wake(q) // the caller will try again
		done(quorumq.Reply{}, h.NotHosted(q))
		return
	}
	m.submit(c, done)
}

// Flush ends the wait of a queue's deferrable commands.
func (h *Host) Flush(q id.QueueUID) {
	if m := h.Member(q); m != nil {
		m.group.Flush()
	}
}

// Load adds the message to the delivery of a Get. It does not run on the apply path. done is called
// exactly once, with errors as of Submit or of reading the body.
func (h *Host) Load(q id.QueueUID, d quorumq.Delivery, done func(traffic.Delivery, error)) {
	m := h.Member(q)
	if m == nil {
		done(traffic.Delivery{}, h.NotHosted(q))
		return
	}
	if !m.box.Post(func() { done(m.load(d)) }) {
		done(traffic.Delivery{}, raftfsm.ErrStopped)
	}
}

// Held reads what a consumer holds above an id from the local member, if that leads. done is called
// exactly once, not on the apply path. If the bodies are more than maxHeldBytes, the rest follows
// as deliveries. If room is a limit in bytes, the answer is cut instead; then nothing is delivered
// to the consumer until an answer is not cut. While the first message cannot be read, the answer waits.
func (h *Host) Held(q id.QueueUID, c quorumq.ConsumerKey, after quorumq.MsgID, room int64, done func(traffic.Holding, error)) {
	m := h.Member(q)
	if m == nil {
		done(traffic.Holding{}, h.NotHosted(q))
		return
	}
	if room != traffic.NoRoomLimit {
		m.back.add(c)
	}
	m.ask(&resume{consumer: c, after: after, room: room, done: done})
}

// LeaderOf returns the leader that the local member knows. It returns false if no local member runs
// and takes part.
func (h *Host) LeaderOf(q id.QueueUID) (id.NodeID, bool) {
	m := h.Member(q)
	if m == nil || m.group.Failed() != nil {
		return "", false
	}
	leader, _ := m.group.Leader()
	if leader == "" {
		// A member that joins does not know its leader yet, but others do.
		r, ok := h.cfg.Views.View().QueueByUID(q)
		return "", !ok || Joins(r, h.cfg.Node) == nil
	}
	return leader, true
}

// Rouse wakes the local member if it hibernates.
func (h *Host) Rouse(q id.QueueUID) {
	if h.sleeper(q) != nil {
		h.Wake(q)
	}
}

// AwaitLed returns nil once this node leads a queue with a configuration in force in its term, and an
// error when ctx ends before. If the queue's member is not open yet, it is opened before others.
func (h *Host) AwaitLed(ctx context.Context, uid id.QueueUID) error {
	led, end := h.ledHere.wait(uid)
	defer end()
	if q := h.Member(uid); q != nil {
		if l := q.led.Load(); l != nil && l.configured.Load() {
			return nil
		}
	} else {
		h.Wake(uid)
	}
	select {
	case <-led:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// AwaitLeader returns a channel that is closed when this node's member of a queue learns of another leader than it knew.
// end must be called when nobody reads the channel any longer.
func (h *Host) AwaitLeader(q id.QueueUID) (learned <-chan struct{}, end func()) {
	return h.learned.wait(q)
}
