package sim

import (
	"encoding/binary"
	"slices"

	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/quorumq/session"
)

// consumer is a client that consumes from one queue through some node, and the gateway's
// tracker of it.
type consumer struct {
	w       *world
	place   int // of its queue in the chain
	autoAck bool
	credit  bool  // it sets how many it takes
	gets    bool  // it asks for each message (DEL-5)
	timeout int64 // its own, ms; 0: none (CT-1)

	node    int // -1: not attached
	end     *end
	key     quorumq.ConsumerKey
	tracker *session.Consumer
	open    bool // the queue has answered the Checkout
	// opening: a Checkout is on its way in this attempt; sent of them are or were.
	opening  bool
	sent     int
	early    []quorumq.Delivery // came before the answer to the Checkout
	resuming bool
	asking   bool // a Get is on its way
	inFlight int
	granted  quorumq.MsgID   // newest credit
	granting bool            // it is on its way in this attempt
	got      []quorumq.MsgID // what the client has not decided about
	joint    *transaction    // what it decides about together with outputs; nil: nothing
}

// attach subscribes anew through any node.
func (c *consumer) attach() {
	w := c.w
	at := w.serving()
	if c.node >= 0 || at < 0 {
		return
	}
	n := w.nodes[at]
	g := n.groupOf(c.place)
	if g == nil {
		return
	}
	n.sessions++
	c.key = quorumq.ConsumerKey{SessionKey: quorumq.SessionKey{Node: n.name, Epoch: n.epoch, Session: n.sessions}, Tag: 1}
	if c.gets {
		c.key.Tag = 0
	}
	w.event("attach queue node session", int64(g.uid), int64(at), int64(n.sessions))
	c.node, c.end = at, n.end(g)
	c.tracker, c.joint = session.NewConsumer(c.key, 0), nil
	c.open, c.opening, c.sent, c.early, c.got, c.asking = c.gets, false, 0, nil, nil, false
	c.resuming, c.inFlight, c.granted, c.granting = false, 0, 0, false
	c.end.consumers = append(c.end.consumers, c)
}

// lost is the end of the node or of the queue.
func (c *consumer) lost() { c.node, c.end, c.got = -1, nil, nil }

// gone handles the report that the queue does not know the consumer. The report may come from a former leader, which
// never knew it; so the session is closed for good.
func (c *consumer) gone() {
	c.w.event("gone session", int64(c.key.Session))
	c.end.remove(c)
	if c.w.cfg.Fault != FaultOpenSession {
		c.end.closeSession(c.key)
	}
	c.lost()
}

// close is the client's wish.
func (c *consumer) close() {
	c.w.event("close node session", int64(c.node), int64(c.key.Session))
	e := c.end
	e.remove(c)
	if c.w.rng.IntN(2) == 0 {
		e.ops = append(e.ops, &op{header: quorumq.AppendCommand(nil, &quorumq.Cancel{Consumer: c.key, Requeue: true})})
	}
	e.closeSession(c.key)
	c.lost()
}

// rewind forgets what is on its way to the last leader, as a gateway does.
func (c *consumer) rewind() {
	c.opening, c.resuming, c.inFlight, c.granted, c.granting = false, false, 0, 0, false
	if c.open {
		c.tracker.Rewind()
	}
}

// ask gets one message. If the answer is lost, a message may have been assigned: then the session is closed, which
// returns the message.
func (c *consumer) ask() {
	if c.asking || c.w.quiet || c.w.rng.IntN(3) > 0 {
		return
	}
	c.asking = true
	key := c.key
	c.end.send(quorumq.AppendCommand(nil, &quorumq.Get{Session: key.SessionKey}), nil, func(a callResult) {
		if c.node < 0 || c.key != key {
			return
		}
		c.asking = false
		switch d := a.reply.Delivery; {
		case a.reply.Code == quorumq.CodeSingleActive: // as it was configured meanwhile
		case a.reply.Code != quorumq.CodeOK:
			c.w.broke("DEL-5", "a Get of consumer %v is answered with code %d", key, a.reply.Code)
		case d != nil && c.tracker.Assign(*d, false):
			c.hand(*d)
		}
	})
}

// pump sends what the queue is to get.
func (c *consumer) pump() {
	e, key := c.end, c.key
	if !c.open {
		if !c.opening {
			c.opening = true
			c.sent++
			cmd := &quorumq.Checkout{
				Consumer: key, Prefetch: c.w.swarm.prefetch, AutoAck: c.autoAck, Credit: c.credit,
				HasTimeout: c.timeout > 0, TimeoutMs: c.timeout,
			}
			e.send(quorumq.AppendCommand(nil, cmd), nil, func(a callResult) { c.opened(key, a.reply) })
		}
		return
	}
	if c.gets {
		c.ask()
	} else if c.tracker.NeedsResume() && !c.resuming {
		c.resuming = true
		c.resume()
	}
	c.grant()
	for c.inFlight < outcomesInFlight {
		cmd, number, body, more := c.tracker.Next()
		if !more {
			return
		}
		c.inFlight++
		attempt := e.attempt
		var bodies [][]byte
		if body != nil {
			bodies = [][]byte{body}
		}
		e.send(quorumq.AppendCommand(nil, cmd), bodies, func(a callResult) { c.decided(key, cmd, number, attempt, a.reply) })
	}
}

// grant raises the credit above what came last; the limit is absolute, so that the newest
// says all.
func (c *consumer) grant() {
	limit := c.tracker.Last() + quorumq.MsgID(c.w.swarm.prefetch)
	if !c.credit || c.granting || limit <= c.granted {
		return
	}
	c.granting, c.granted = true, limit
	key, attempt := c.key, c.end.attempt
	cmd := &quorumq.Credit{Consumer: key, Limit: limit}
	c.end.send(quorumq.AppendCommand(nil, cmd), nil, func(callResult) {
		if c.node >= 0 && c.key == key && c.end.attempt == attempt {
			c.granting = false
		}
	})
}

// resume asks the leader for what was missed; it answers from its machine, without an
// entry, as long as it thinks that it leads.
func (c *consumer) resume() {
	e, key, after, attempt, to := c.end, c.key, c.tracker.Last(), c.end.attempt, c.end.target
	c.w.request(e.n.idx, to,
		func(reply func(callResult)) { reply(e.g.reps[to].assigned(key, after)) },
		func(a callResult) { e.answered(a, attempt, to, func(a callResult) { c.resumed(key, a) }) })
}

// assigned answers a resume.
func (r *replica) assigned(k quorumq.ConsumerKey, after quorumq.MsgID) callResult {
	if r.g.deleted {
		return callResult{err: noSuchQueue}
	}
	if !r.leads {
		return callResult{err: notLeader, hint: r.known}
	}
	a := callResult{held: r.m.q.Assigned(nil, k, after)}
	a.reply.LastMsgID, a.known = r.m.q.LastMsgID(k)
	return a
}

// resumed passes over the answer to a consumer that was closed, or opened anew, meanwhile.
func (c *consumer) resumed(key quorumq.ConsumerKey, a callResult) {
	if c.node < 0 || c.key != key {
		return
	}
	c.resuming = false
	if !a.known {
		c.gone()
		return
	}
	c.tracker.Resumed(a.held, a.reply.LastMsgID, c.hand)
}

// opened takes the answer to the Checkout. After several nobody knows what the first one
// has brought: all that the consumer holds is asked for.
func (c *consumer) opened(key quorumq.ConsumerKey, r quorumq.Reply) {
	if c.node < 0 || c.key != key || c.open {
		return
	}
	if r.Code != quorumq.CodeOK {
		c.w.broke("CO-3", "the Checkout of consumer %v is refused with code %d", c.key, r.Code)
		return
	}
	c.open = true
	if c.sent > 1 {
		c.tracker.Rewind()
		return
	}
	c.tracker = session.NewConsumer(c.key, r.LastMsgID)
	early := c.early
	c.early = nil
	for _, d := range early {
		c.handleDelivery(d)
	}
}

// handleDelivery takes a delivery that came by itself.
func (c *consumer) handleDelivery(d quorumq.Delivery) {
	if !c.open {
		c.early = append(c.early, d)
		return
	}
	v := c.tracker.Deliver(d, c.autoAck)
	if v == session.Missing && c.w.cfg.Fault == FaultNoResume {
		c.tracker.Resumed(nil, d.MsgID-1, nil)
		v = c.tracker.Deliver(d, c.autoAck)
	}
	if v == session.New {
		c.hand(d)
	}
}

// hand gives a delivery to the client.
func (c *consumer) hand(d quorumq.Delivery) {
	c.w.event("hand queue session number index", int64(c.end.g.uid), int64(c.key.Session), int64(d.MsgID), int64(d.Body.Index))
	c.end.g.ledger.hand(&d)
	if !c.autoAck {
		c.got = append(c.got, d.MsgID)
	}
}

// decided takes the answer to a decision: what the queue says it has done, it has done.
func (c *consumer) decided(key quorumq.ConsumerKey, cmd quorumq.Command, number uint64, attempt int, r quorumq.Reply) {
	if c.node < 0 || c.key != key {
		return
	}
	if attempt == c.end.attempt {
		c.inFlight--
	}
	if s, is := cmd.(*quorumq.Settle); is && (r.Code == quorumq.CodeOK || r.Code == quorumq.CodeNotHeld) {
		for _, rg := range s.Ranges {
			for m := rg.First; m <= rg.Last; m++ {
				if c.end.g.ledger.held[key][m] != nil {
					c.w.broke("DEL-12", "consumer %v was notified that number %d is settled, it still holds it", key, m)
				}
			}
		}
	}
	c.tracker.Answer(number, r)
	if c.tracker.Gone() {
		c.gone()
	}
}

// decide makes the client decide about some of what it has.
func (c *consumer) decide() {
	if c.node < 0 || len(c.got) == 0 {
		return
	}
	w := c.w
	i := 0
	if w.rng.IntN(3) == 0 {
		i = w.rng.IntN(len(c.got))
	}
	n := 1 + w.rng.IntN(min(len(c.got)-i, 5))
	r := quorumq.MsgIDRange{First: c.got[i], Last: c.got[i+n-1]}
	p := w.rng.IntN(10)
	if w.quiet {
		p = 9
		r, i, n = quorumq.MsgIDRange{First: c.got[0], Last: c.got[len(c.got)-1]}, 0, len(c.got)
	}
	if c.joint.spans(r) { // that decides about some
		r, n = quorumq.MsgIDRange{First: c.got[i], Last: c.got[i]}, 1
	}
	if joint := 10 - w.swarm.transacts; p >= joint && c.joint == nil && (!w.quiet || len(w.transactions) < maxJoint*w.swarm.transacts) {
		if !c.consecutive(i, n) {
			r, n = quorumq.MsgIDRange{First: c.got[i], Last: c.got[i]}, 1
		}
		c.transact(r)
		c.got = slices.Delete(c.got, i, i+n)
		return
	}
	decided := 0
	switch {
	case p < 2:
		decided = c.tracker.Requeue(r, p == 0, w.note(), w.delay())
	case p < 4:
		decided = c.tracker.Discard(r, p == 2, w.note())
	default:
		decided = c.tracker.Settle(r)
	}
	w.event("decide session first last how", int64(c.key.Session), int64(r.First), int64(r.Last), int64(p))
	if decided != n {
		w.broke("DEL-6", "consumer %v decided about %d deliveries, the gateway counted %d", c.key, n, decided)
	}
	c.got = slices.Delete(c.got, i, i+n)
}

// maxJoint, times Config's share of them, is how many transactions there may be in all while
// everything heals: outputs are consumed in their turn.
const maxJoint = 20

// consecutive reports whether the client has all numbers between the first and the last of these.
func (c *consumer) consecutive(i, n int) bool { return int(c.got[i+n-1]-c.got[i]) == n-1 }

// note returns annotations as they are stored, nil mostly (DEL-11).
func (w *world) note() []byte {
	if w.rng.IntN(4) > 0 {
		return nil
	}
	w.notes++
	w.metas = append(w.metas, meta{kind: annotation, note: w.notes})
	b := binary.BigEndian.AppendUint64(nil, uint64(len(w.metas)-1))
	return message.AppendTable(b, message.Table{{Name: noteName, Value: message.Int64(w.notes)}})
}

// noteName is the annotation that consumers give.
const noteName = "x-note"
