package replica

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
	"github.com/quorate/quorate/wal"
)

// effects is what has gathered between two steps of a worker, within one leadership.
type effects struct {
	led     *Led
	deliver []quorumq.Delivery
	notices []quorumq.Notice
	copies  []quorumq.Discarded
	backlog bool
}

// Act implements raftfsm.Effector. It runs on the apply path, so it only copies. It ignores
// Release, because the log learns from snapshots what is still needed.
func (q *Member) Act(_ uint64, e quorumq.Effects) {
	l := q.led.Load()
	if l == nil {
		return
	}
	q.lookFull()
	if e.Timer != 0 {
		q.h.timers.Set(q.uid, e.Timer, q.due(e.Timer))
	}
	if e.Dropped > 0 {
		q.dropped(e.Dropped)
	}
	if e.Unused {
		q.h.unused.add(q.uid)
	}
	if len(e.Deliver) == 0 && len(e.Notices) == 0 && len(e.Copies) == 0 && !e.Backlog {
		return
	}
	q.box.Gather(func(into *effects, waiting int) int {
		into.led = l
		into.notices = append(into.notices, e.Notices...)
		into.copies = append(into.copies, e.Copies...)
		into.backlog = into.backlog || e.Backlog
		room := max(0, maxMailboxDeliveries-waiting)
		room = min(room, len(e.Deliver))
		into.deliver = append(into.deliver, e.Deliver[:room]...)
		for _, d := range e.Deliver[room:] {
			q.lose(d)
		}
		return room
	})
}

// carryOut acts on effects. It runs on a worker.
func (q *Member) carryOut(e *effects) {
	q.deliver(e.deliver, e.led)
	for _, n := range e.notices {
		if n.Kind == quorumq.NoticeRevoked { // CT-2
			q.h.cfg.Events.EmitQueue(q.uid, event.Event{
				Kind: event.ConsumerTimeout, Detail: string(n.Consumer.Node), Count: uint64(n.Messages.Last-n.Messages.First) + 1,
			})
		}
		q.notify(n)
	}
	if len(e.copies) > 0 {
		q.h.above.Forwarders.Copies(e.led, e.copies)
	}
	if e.backlog {
		q.h.above.Forwarders.Backlog(e.led)
	}
}

// load reads the message of a delivery. If it is not in the log of a member that leads, and a consumer holds it, the
// member has lost what it had stored: it stops, another one leads, and it is rebuilt from its peers.
func (q *Member) load(d quorumq.Delivery) (traffic.Delivery, error) {
	out, l := traffic.Delivery{Delivery: d}, q.led.Load()
	var err error
	if out.Message, err = q.group.Body(raftfsm.BodyRef(d.Body)); err == nil && d.Annotations != (quorumq.BodyRef{}) {
		out.Annotations, err = q.group.Body(raftfsm.BodyRef(d.Annotations))
	}
	// While a member leads, no snapshot takes the place of its log.
	if errors.Is(err, raft.ErrLogNotFound) && l != nil && q.assigned(d) && q.led.Load() == l {
		q.group.Fail(fmt.Errorf("%w: body %d of entry %d, or its annotations, which a consumer of node %q holds: %w",
			wal.ErrLost, d.Body.Slot, d.Body.Index, d.Consumer.Node, err))
	}
	return out, err
}

// assigned reports whether the consumer of a delivery still holds it. If not, that is final, whoever
// leads the queue: numbers of deliveries are not used again.
func (q *Member) assigned(d quorumq.Delivery) (holds bool) {
	q.group.Read(func() { _, holds = q.machine.Queue().Holds(d.Consumer, d.MsgID) })
	return holds
}

// outbox gathers deliveries for one gateway. It belongs to one step of a worker.
type outbox struct {
	q     *Member
	to    transport.Peer
	first *Led // as of deliver
	ds    []traffic.Delivery
	bytes int
}

// deliver sends deliveries to their gateways, in order for each. For deliveries that are sent for
// the first time, first is the leadership in which they were assigned; it records those that do not
// leave this node. For deliveries that are sent again, first is nil.
func (q *Member) deliver(ds []quorumq.Delivery, first *Led) {
	var boxes []*outbox // few: one per gateway
	for i := range ds {
		d := &ds[i]
		if q.back.holds(d.Consumer) {
			continue // its gateway will ask for it
		}
		to := transport.Peer{Node: d.Consumer.Node, Epoch: d.Consumer.Epoch}
		var box *outbox
		for _, b := range boxes {
			if b.to == to {
				box = b
			}
		}
		if box == nil {
			box = &outbox{q: q, to: to, first: first, ds: make([]traffic.Delivery, 0, len(ds)-i)}
			boxes = append(boxes, box)
		}
		h, err := q.load(*d)
		if err != nil {
			q.lose(*d) // settled meanwhile, or will be tried again
			continue
		}
		box.add(h)
	}
	for _, b := range boxes {
		b.flush()
	}
}

// add flushes first if the message would make the frame too large. A message that is too large by
// itself goes alone.
func (b *outbox) add(h traffic.Delivery) {
	n := len(h.Message) + len(h.Annotations)
	if b.bytes > 0 && b.bytes+n > maxDeliverBytes {
		b.flush()
	}
	b.ds = append(b.ds, h)
	b.bytes += n
}

// flush sends what was added. If there is no stream, the deliveries are dropped; the gateway
// resumes when the connection is up again. If there is no room, they are delivered later.
func (b *outbox) flush() {
	if len(b.ds) == 0 {
		return
	}
	if b.to.Node == b.q.h.cfg.Node {
		b.q.h.above.Gateway.Deliver(b.q.uid, b.ds)
	} else {
		b.send()
	}
	b.ds, b.bytes = nil, 0
}

// send records deliveries that did not leave. If there was no room for them, they come later, from
// the queue's own record.
func (b *outbox) send() {
	q, l, ds := b.q, b.first, b.ds
	var dropped func()
	if l != nil {
		dropped = func() { q.box.Post(func() { l.unsent.add(ds) }) }
	}
	switch err := q.h.cfg.Transport.Answer(b.to, deliveriesFrame(q.uid, ds), dropped); {
	case errors.Is(err, transport.ErrStreamFull):
		for i := range ds {
			q.lose(ds[i].Delivery)
		}
	case errors.Is(err, transport.ErrNotConnected) && l != nil:
		l.unsent.add(ds)
	}
}

// deliveriesFrame returns a frame with the deliveries of one queue for one gateway.
func deliveriesFrame(q id.QueueUID, ds []traffic.Delivery) *nodev1.Frame {
	out := make([]*nodev1.Delivery, len(ds))
	for i := range ds {
		out[i] = wireDelivery(&ds[i])
	}
	return &nodev1.Frame{Kind: &nodev1.Frame_Deliveries{
		Deliveries: &nodev1.Deliveries{Queue: uint64(q), Deliveries: out},
	}}
}

// wireDelivery converts a delivery. The result shares the bytes of d, which nobody changes.
func wireDelivery(d *traffic.Delivery) *nodev1.Delivery {
	return &nodev1.Delivery{
		Epoch: uint64(d.Consumer.Epoch), Session: d.Consumer.Session, Tag: d.Consumer.Tag,
		MsgId:         uint64(d.MsgID),
		DeliveryCount: d.DeliveryCount, AcquiredCount: d.AcquiredCount,
		Message: d.Message, Annotations: d.Annotations,
	}
}

// notify sends a notice to the consumer's gateway. If there is no stream, the notice is lost; when
// there is one again, checkNodes greets the gateway and so makes up for it.
func (q *Member) notify(n quorumq.Notice) {
	k := n.Consumer
	if k.Node == q.h.cfg.Node {
		q.h.above.Gateway.Notice(q.uid, n)
		return
	}
	err := q.h.cfg.Transport.Answer(transport.Peer{Node: k.Node, Epoch: k.Epoch}, &nodev1.Frame{Kind: &nodev1.Frame_Notice{Notice: &nodev1.ConsumerNotice{
		Queue: uint64(q.uid), Epoch: uint64(k.Epoch), Session: k.Session, Tag: k.Tag, Kind: uint32(n.Kind),
		First: uint64(n.Messages.First), Last: uint64(n.Messages.Last),
	}}}, nil)
	switch {
	case errors.Is(err, transport.ErrStreamFull):
		q.again(func() { q.notify(n) })
	case err != nil:
		q.h.cfg.Logger.Debug("notice not sent", "queue", q.uid.String(), "node", k.Node, "error", err)
	}
}

// lost remembers from which id on deliveries must be read from the queue again, because there was
// no room for them. mu guards the map.
type lost struct {
	mu   sync.Mutex
	from map[quorumq.ConsumerKey]quorumq.MsgID // the lowest id that was lost
}

// lose gives up a delivery for now. It does not block.
func (q *Member) lose(d quorumq.Delivery) {
	q.lost.mu.Lock()
	defer q.lost.mu.Unlock()
	if q.lost.from == nil {
		q.lost.from = map[quorumq.ConsumerKey]quorumq.MsgID{}
		time.AfterFunc(hostRetry, func() { q.box.Post(q.redeliver) })
	}
	if from, ok := q.lost.from[d.Consumer]; !ok || d.MsgID < from {
		q.lost.from[d.Consumer] = d.MsgID
	}
}

// redeliver delivers what was lost, as far as consumers still hold it. Only workers call it.
func (q *Member) redeliver() {
	q.lost.mu.Lock()
	from := q.lost.from
	q.lost.from = nil
	q.lost.mu.Unlock()
	l := q.led.Load()
	if l == nil {
		return // the next leader's Lead makes gateways resume
	}
	for c, first := range from {
		if !l.unsent.forget(c, first) {
			continue
		}
		var ds []quorumq.Delivery
		q.group.Read(func() { ds = q.machine.Queue().Assigned(nil, c, first-1) })
		q.deliver(ds, nil)
	}
}
