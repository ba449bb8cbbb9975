package sim

import (
	"encoding/binary"
	"slices"

	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// producer is a client that publishes to one queue. With an id it sends what is not
// answered again when it changes its node, so that each message is stored once; without
// one it gives that up.
type producer struct {
	w       *world
	place   int
	id      *quorumq.ProducerID // nil: plain
	node    int                 // -1: not connected
	conn    int                 // grows with each connection; answers to older ones are not heard
	group   *group              // what it published to last
	channel int                 // in which order holds
	next    uint64
	pending []*publishing // not answered, in order
}

// publishing is a message that the client has published and not seen confirmed.
type publishing struct {
	msg  int
	new  quorumq.NewMessage
	body []byte
}

// reconnect ends the connection.
func (p *producer) reconnect() {
	p.node = -1
	p.conn++
	if p.id == nil {
		p.giveUp()
	}
}

// giveUp forgets what is not answered: its outcome is unknown.
func (p *producer) giveUp() {
	for _, m := range p.pending {
		p.w.msgs[m.msg].unknown = true
	}
	p.pending = nil
	p.channel = p.w.newChannel()
}

// connect opens a connection and sends again what is not answered.
func (p *producer) connect() {
	at := p.w.serving()
	if at < 0 {
		return
	}
	p.node = at
	if p.current() == nil {
		if p.w.swarm.lags {
			p.w.lose(p.w.nodes[at], p.place)
		}
		p.node = -1
		return
	}
	p.w.event("connect node unanswered", int64(at), int64(len(p.pending)))
	for _, m := range slices.Clone(p.pending) {
		p.hand(m)
	}
}

// current returns the queue; a new one under the name starts anew.
func (p *producer) current() *group {
	g := p.w.nodes[p.node].groupOf(p.place)
	if g != nil && g != p.group {
		if p.group != nil {
			p.giveUp()
		}
		p.group = g
	}
	return g
}

// publish publishes one more message.
func (p *producer) publish() {
	w := p.w
	if p.node < 0 {
		if len(p.pending) == 0 || w.rng.IntN(2) == 0 {
			p.connect()
		}
		return
	}
	g := p.current()
	if g == nil && w.swarm.lags {
		w.lose(w.nodes[p.node], p.place)
	}
	if g == nil || len(p.pending) >= w.swarm.window {
		return
	}
	p.next++
	m := &publishing{msg: len(w.msgs), new: quorumq.NewMessage{
		TTLMs: quorumq.Unlimited, Priority: quorumq.DefaultPriority, Producer: p.id, Delay: w.delay(),
	}}
	w.msgs = append(w.msgs, clientMessage{})
	w.result.Messages++
	if p.id != nil {
		m.new.ProducerSeq = p.next
	}
	if w.swarm.ttl >= 0 && w.rng.IntN(2) == 0 {
		m.new.TTLMs = w.rng.Int64N(w.swarm.ttl)
	}
	if w.rng.IntN(8) == 0 {
		m.new.Priority = uint8(w.rng.IntN(6))
	}
	body := make([]byte, tagBytes+w.rng.IntN(30))
	binary.BigEndian.PutUint64(body, uint64(m.msg))
	m.new.Size = uint32(len(body))
	m.body = w.tagged(meta{
		kind: published, msg: m.msg, channel: p.channel, seq: p.next, level: m.new.Priority, ttl: m.new.TTLMs,
		delayed: m.new.Delay != quorumq.Delay{},
	}, &message.Message{RoutingKeys: []string{g.name}, Body: body})
	w.event("publish message queue node", int64(m.msg), int64(g.uid), int64(p.node))
	p.pending = append(p.pending, m)
	p.hand(m)
}

// hand gives a message to the gateway.
func (p *producer) hand(m *publishing) {
	conn := p.conn
	e := p.w.nodes[p.node].end(p.group)
	if !e.pub.Push(m.new, m.body, &token{
		done: func(accepted bool) { p.answered(m, conn, accepted) },
		lost: func() {},
	}) {
		p.w.broke("window", "a gateway's window of messages is full")
	}
}

// answered takes a confirm or a refusal; both must be true, now and for ever.
func (p *producer) answered(m *publishing, conn int, accepted bool) {
	w := p.w
	msg := &w.msgs[m.msg]
	w.event("answer message accepted heard", int64(m.msg), truth(accepted), truth(conn == p.conn))
	if accepted && msg.stored != 1 {
		w.broke("confirmed", "message %d is confirmed, stored %d times", m.msg, msg.stored)
	}
	if conn != p.conn {
		return
	}
	if !accepted && msg.stored > 0 {
		w.broke("PUB-5", "message %d is refused, and stored", m.msg)
	}
	i := slices.Index(p.pending, m)
	if i < 0 {
		return // the queue was deleted meanwhile
	}
	if msg.answered {
		w.broke("answers", "message %d is answered twice", m.msg)
	}
	msg.answered, msg.accepted = true, accepted
	p.pending = slices.Delete(p.pending, i, i+1)
}

// truth is how a trace shows a fact.
func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
