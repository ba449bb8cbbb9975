package sim

import (
	"slices"

	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/quorumq/session"
)

// Bounds of what a gateway has on its way, small so that windows fill up.
const (
	enqueuesInFlight = 4
	outcomesInFlight = 4
	maxBatchBytes    = 400
	retryWait        = 60 // ms
)

// end is a gateway's end of one queue: its numbered stream of messages and its clients'
// consumers. Everything unanswered is sent again, in order, with each attempt.
type end struct {
	n   *node
	g   *group
	pub *session.Publisher[*token]

	consumers []*consumer
	ops       []*op // repeated until answered

	target    int // -1: not known
	hint      int
	attempt   int
	enqueues  int // in flight in this attempt
	notBefore int64
	closed    bool

	renumbered quorumq.Seq // with FaultNoSequence: the next number
}

// token is what a gateway knows of an unanswered message.
type token struct {
	done func(accepted bool)
	lost func()
}

// op is a command that is sent until it is answered.
type op struct {
	header []byte
	sent   bool
}

// newEnd knows neither the leader nor a number of the stream yet.
func newEnd(n *node, g *group) *end {
	return &end{
		n: n, g: g, target: -1, hint: -1, renumbered: 1,
		pub: session.NewPublisher[*token](quorumq.EnqueuerKey{Node: n.name, Epoch: n.epoch}, session.Limits{}),
	}
}

// close is the end of the queue: what waits has an unknown outcome.
func (e *end) close() {
	e.closed = true
	e.pub.Abandon(func(t *token, _ bool) { t.lost() })
	for _, c := range e.consumers {
		c.lost()
	}
	e.consumers, e.ops = nil, nil
}

// retry begins a new attempt, at the node named if it is not -1.
func (e *end) retry(hint int) {
	w := e.n.w
	w.event("retry node queue hint", int64(e.n.idx), int64(e.g.uid), int64(hint))
	e.attempt++
	e.enqueues, e.target, e.hint = 0, -1, hint
	e.pub.Rewind()
	for _, o := range e.ops {
		o.sent = false
	}
	for _, c := range slices.Clone(e.consumers) {
		if c.asking {
			c.close()
			continue
		}
		c.rewind()
	}
	e.notBefore = w.now
	if hint < 0 && !w.quiet {
		e.notBefore += w.rng.Int64N(retryWait)
	}
}

// led handles the local member's report of a leader.
func (e *end) led(leader int) {
	if leader != e.target {
		e.retry(leader)
	}
}

// find chooses the node to ask.
func (e *end) find() bool {
	w := e.n.w
	for _, n := range [...]int{e.hint, e.g.reps[e.n.idx].known, w.rng.IntN(members)} {
		if n >= 0 && w.connected(e.n.idx, n) {
			e.target = n
			break
		}
	}
	e.hint = -1
	return e.target >= 0
}

// pump sends what waits.
func (e *end) pump() {
	w := e.n.w
	if e.closed || w.now < e.notBefore || e.target < 0 && !e.find() {
		return
	}
	for _, c := range e.consumers {
		c.pump()
	}
	for _, o := range e.ops {
		if !o.sent {
			o.sent = true
			e.send(o.header, nil, func(callResult) { e.ops = slices.DeleteFunc(e.ops, func(x *op) bool { return x == o }) })
		}
	}
	for e.enqueues < enqueuesInFlight {
		cmd, bodies, more := e.pub.NextBatch(1+w.rng.IntN(w.swarm.batch), maxBatchBytes)
		if !more {
			return
		}
		e.enqueues++
		first, n, attempt := cmd.First, len(cmd.Messages), e.attempt
		e.renumber(&cmd)
		e.send(quorumq.AppendCommand(nil, &cmd), bodies, func(a callResult) {
			if attempt == e.attempt {
				e.enqueues--
			}
			e.enqueued(first, n, a.reply)
		})
	}
}

// renumber plants FaultNoSequence.
func (e *end) renumber(cmd *quorumq.Enqueue) {
	if e.n.w.cfg.Fault != FaultNoSequence {
		return
	}
	cmd.First = e.renumbered
	e.renumbered += quorumq.Seq(len(cmd.Messages))
	for i := range cmd.Messages {
		cmd.Messages[i].Producer = nil
	}
}

// send carries a command to the target; a failure begins a new attempt. A success counts
// whatever attempt it is of.
func (e *end) send(header []byte, bodies [][]byte, done func(callResult)) {
	attempt, to := e.attempt, e.target
	e.n.w.request(e.n.idx, to,
		func(reply func(callResult)) { e.g.reps[to].propose(header, bodies, reply) },
		func(a callResult) { e.answered(a, attempt, to, done) })
}

// answered takes an answer for what it says, and sends again after one that says nothing.
func (e *end) answered(a callResult, attempt, from int, done func(callResult)) {
	switch {
	case e.closed:
	case a.err == ok:
		done(a)
	case attempt != e.attempt:
	case a.err == notLeader && a.hint >= 0 && a.hint != from:
		e.retry(a.hint)
	default:
		e.retry(-1)
	}
}

// enqueued works the answer to a publish in. A queue that refuses the stream breaks PUB-6.
func (e *end) enqueued(first quorumq.Seq, n int, r quorumq.Reply) {
	if e.n.w.cfg.Fault == FaultNoSequence && r.Code == quorumq.CodeGap {
		e.renumbered = r.Next
	}
	e.pub.Answer(first, n, r, func(t *token, accepted bool) { t.done(accepted) })
	if e.pub.Failed() != quorumq.CodeOK {
		e.n.w.broke("PUB-6", "queue %s refused the stream of node %s with code %d", e.g.name, e.n.name, e.pub.Failed())
	}
}

// void gives some messages up (PUB-5).
func (e *end) void() {
	w := e.n.w
	w.event("void node queue", int64(e.n.idx), int64(e.g.uid))
	e.pub.Void(func(*token) bool { return w.rng.IntN(4) == 0 }, func(t *token, accepted bool) { t.done(accepted) })
}

// closeSession ends a client's session in the queue, which learns what the client never got.
func (e *end) closeSession(k quorumq.ConsumerKey) {
	closed := &quorumq.SessionClosed{Session: k.SessionKey, Unsent: e.g.ledger.unsent(k)}
	e.ops = append(e.ops, &op{header: quorumq.AppendCommand(nil, closed)})
}

// delivered takes a delivery that came by itself.
func (e *end) delivered(d quorumq.Delivery) {
	for _, c := range e.consumers {
		if c.key == d.Consumer {
			c.handleDelivery(d)
			return
		}
	}
}

// noticed passes notices on to the consumers that they are for.
func (e *end) noticed(n quorumq.Notice) {
	for _, c := range slices.Clone(e.consumers) {
		switch {
		case n.Kind == quorumq.NoticeLeader && c.key.SessionKey == n.Consumer.SessionKey && c.open:
			c.tracker.Rewind()
		case n.Kind == quorumq.NoticeCancelled && c.key == n.Consumer:
			c.gone()
		}
	}
}

func (e *end) remove(c *consumer) {
	e.consumers = slices.DeleteFunc(e.consumers, func(x *consumer) bool { return x == c })
}
