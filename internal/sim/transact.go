package sim

import (
	"encoding/binary"
	"slices"

	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// transaction is a client's decision that settles messages and publishes others in their place
// (G-22). Its client sends it by any node, again when the answer is missing.
type transaction struct {
	c       *consumer
	g       *group
	key     quorumq.ConsumerKey
	ranges  []quorumq.MsgIDRange
	header  []byte
	bodies  [][]byte
	outputs []int // numbers of its messages

	tries, attempt int   // attempt: number of the try under way; 0: none
	until          int64 // when that is given up, ms
	answers        int   // of the queue
	code           quorumq.ReplyCode
	over           bool // it is answered, or given up
}

// transact decides about what the client has of r, which nothing else decides about meanwhile.
func (c *consumer) transact(r quorumq.MsgIDRange) {
	w, g := c.w, c.end.g
	t := &transaction{c: c, g: g, key: c.key, ranges: []quorumq.MsgIDRange{r}}
	cmd := &quorumq.Transact{Consumer: c.key, Ranges: t.ranges}
	for range w.rng.IntN(4) {
		m := &message.Message{Exchange: w.outputExchange(), RoutingKeys: []string{queueNames[w.rng.IntN(len(queueNames))]}}
		number := len(w.msgs)
		w.msgs = append(w.msgs, clientMessage{answered: true})
		m.Body = binary.BigEndian.AppendUint64(nil, uint64(number))
		cmd.Outputs = append(cmd.Outputs, quorumq.Output{Exchange: m.Exchange, Size: tagBytes})
		t.outputs = append(t.outputs, number)
		t.bodies = append(t.bodies, w.tagged(meta{kind: output, msg: number, ttl: quorumq.Unlimited}, m))
	}
	t.header = quorumq.AppendCommand(nil, cmd)
	w.transactions = append(w.transactions, t)
	c.joint = t
}

// outputExchange draws where the outputs of a transaction go.
func (w *world) outputExchange() string {
	if at := w.rng.IntN(len(queueNames) + 1); at < len(queueNames) {
		return exchangeOf(queueNames[at])
	}
	return "" // the default exchange
}

// trySome sends a transaction, or repeats it.
func (w *world) trySome() {
	open := w.open()
	if len(open) == 0 {
		return
	}
	t := open[w.rng.IntN(len(open))]
	if t.tries > 2 && !w.quiet && w.rng.IntN(10) == 0 {
		t.end() // the client has had enough
		return
	}
	t.try()
}

// open returns the transactions that are not over.
func (w *world) open() (ts []*transaction) {
	for _, t := range w.transactions {
		if !t.over {
			ts = append(ts, t)
		}
	}
	return ts
}

// try sends it to whichever node is drawn, as clients do after an unknown outcome.
func (t *transaction) try() {
	w := t.c.w
	if t.attempt != 0 && w.now < t.until || t.over {
		return
	}
	at := w.someNode()
	if t.g.deleted || at < 0 {
		t.attempt = 0
		if t.g.deleted {
			t.end()
		}
		return
	}
	to := t.g.reps[at].known
	if to < 0 || !w.connected(at, to) {
		to = w.rng.IntN(members)
	}
	t.tries++
	t.attempt, t.until = t.tries, w.now+minTransit+w.rng.Int64N(transitSpread)
	attempt := t.attempt
	w.event("transact queue session first try", int64(t.g.uid), int64(t.key.Session), int64(t.ranges[0].First), int64(t.tries))
	w.request(at, to,
		func(reply func(callResult)) { t.g.reps[to].propose(t.header, t.bodies, reply) },
		func(a callResult) {
			if t.attempt == attempt && a.err != ok {
				t.attempt = 0
			}
			if a.err == ok && !t.over {
				t.answers, t.code = t.answers+1, a.reply.Code
				t.answered()
			}
		})
}

// answered takes the queue's word: a first try that was refused has published nothing.
func (t *transaction) answered() {
	w := t.c.w
	stored := 0
	for _, n := range t.outputs {
		stored += w.msgs[n].stored
	}
	switch {
	case t.code == quorumq.CodeOK && stored != len(t.outputs):
		w.broke("G-22", "a transaction has published %d of its %d outputs", stored, len(t.outputs))
	case t.code != quorumq.CodeOK && t.tries == 1 && stored > 0:
		w.broke("G-22", "a transaction was refused with code %d, and %d outputs are there", t.code, stored)
	}
	t.end()
}

// end lets the gateway know that its client has decided, or gives back what may still be its own;
// of what the queue has settled that takes nothing, and returns nothing.
func (t *transaction) end() {
	t.over = true
	if c := t.c; c.joint == t {
		c.joint = nil
		if c.node >= 0 && c.key == t.key {
			for _, r := range t.ranges {
				if t.answers > 0 && t.code == quorumq.CodeOK {
					c.tracker.Settle(r)
				} else {
					c.tracker.Requeue(r, false, nil, quorumq.Delay{})
				}
			}
		}
	}
}

// transacted follows a Transact: all that it names was held and is settled, and each output is
// there for the first time; or nothing has happened.
func (l *ledger) transacted(index uint64, c *quorumq.Transact, r *quorumq.Reply) {
	all := true
	for _, rg := range c.Ranges {
		for m := rg.First; m <= rg.Last; m++ {
			all = all && l.held[c.Consumer][m] != nil
		}
	}
	if all != (r.Code == quorumq.CodeOK) {
		l.broke("G-22", "a transaction of consumer %v is answered with code %d; all is held: %t", c.Consumer, r.Code, all)
	}
	if r.Code != quorumq.CodeOK {
		return
	}
	l.w.result.Transactions++
	l.outcome(c.Consumer, c.Ranges, r, l.settled)
	for i := range c.Outputs {
		ref := quorumq.BodyRef{Index: index, Slot: uint32(i)}
		t, _ := l.g.body(ref)
		m := &l.w.metas[t]
		msg := &l.w.msgs[m.msg]
		msg.accepted = true
		if msg.stored++; msg.stored > 1 {
			l.broke("G-22", "output %d of a transaction is published a second time", m.msg)
		}
		o := &copied{l: l, ref: ref, meta: m, state: ready, at: l.now}
		l.copies[ref] = o
		l.count[ready]++
		l.fresh = append(l.fresh, o)
	}
}

// judgeTransact: what the transaction settled is no longer held, or still is if it was refused.
func (l *ledger) judgeTransact(cmd quorumq.Command, r *quorumq.Reply) {
	c, is := cmd.(*quorumq.Transact)
	if !is {
		return
	}
	o := l.g.truth.q.Overview()
	if int(o.Unsettled) != l.count[assigned] || int(o.Backlog) != l.count[backlog] {
		l.broke("G-22", "after a transaction of %d outputs, answered with code %d, %d messages are unsettled and %d in the backlog; there must be %d and %d",
			len(c.Outputs), r.Code, o.Unsettled, o.Backlog, l.count[assigned], l.count[backlog])
	}
	if r.Code == quorumq.CodeOK && r.Count != uint64(len(c.Outputs)) {
		l.broke("G-22", "a transaction says that it published %d of %d outputs", r.Count, len(c.Outputs))
	}
}

// spans reports whether a range goes over what a transaction decides about.
func (t *transaction) spans(r quorumq.MsgIDRange) bool {
	return t != nil && slices.ContainsFunc(t.ranges, func(x quorumq.MsgIDRange) bool { return x.First <= r.Last && r.First <= x.Last })
}
