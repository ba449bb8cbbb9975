package amqp

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/message"
)

// Limits of what is kept until tx.commit: for one channel, and for all channels of a connection.
const (
	maxTxMessages        = 10_000
	maxTxBytes           = 64 << 20
	maxConnectionTxBytes = 2 * maxTxBytes
	// txMessageBytes is what a message without its body counts towards maxConnectionTxBytes.
	txMessageBytes = 512
)

// transaction keeps publishes and settlements until tx.commit (PUB-9).
type transaction struct {
	c        *conn
	messages []txMessage
	bytes    int   // of the bodies
	held     int64 // counted against maxConnectionTxBytes
	settles  []txSettle
}

func (c *conn) begin() *transaction { return &transaction{c: c} }

// end releases what the transaction holds, once.
func (t *transaction) end() {
	t.c.txBytes.Add(-t.held)
	t.held = 0
}

// txMessage is a publish that waits for tx.commit, with a copy of its body: the read buffer is
// reused.
type txMessage struct {
	m       wire.BasicPublish
	message message.Message
	body    []byte
	chance  uint64
}

// txSettle is a decision that waits for tx.commit, with the deliveries that a rollback puts back.
type txSettle struct {
	taken []open
	how   settle
}

// publish keeps a message, within the limits of the channel and of the connection. Above them it closes the channel,
// which then releases what it holds.
func (t *transaction) publish(x *content, body []byte) error {
	if t.bytes += len(body); len(t.messages) == maxTxMessages || t.bytes > maxTxBytes {
		return refuse(wire.PreconditionFailed, wire.BasicPublishID,
			"a transaction of more than %d messages or %d bytes; commit more often", maxTxMessages, maxTxBytes)
	}
	n := int64(len(body)) + x.cost + txMessageBytes
	if t.held += n; t.c.txBytes.Add(n) > maxConnectionTxBytes {
		return refuse(wire.PreconditionFailed, wire.BasicPublishID,
			"the transactions of this connection hold more than %d bytes; commit more often, or use more connections", int64(maxConnectionTxBytes))
	}
	t.messages = append(t.messages, txMessage{x.m, x.message, slices.Clone(body), x.chance})
	return nil
}

// settle keeps a decision. The deliveries leave unsettled at once, so a second decision on them is
// the client's fault, as without a transaction.
func (t *transaction) settle(ch *channel, tag uint64, multiple bool, how settle) error {
	ch.c.mu.Lock()
	taken, known := ch.unsettled.take(nil, tag, multiple)
	ch.c.mu.Unlock()
	if !known {
		return refuse(wire.PreconditionFailed, how.method, "unknown delivery tag %d", tag)
	}
	if len(taken) > 0 { // an ack of all that there is may be of nothing, and a client may send it without end
		t.settles = append(t.settles, txSettle{taken, how})
	}
	return nil
}

// heldBy returns how many deliveries of the consumer the transaction, nil for none, has settled without a commit.
func (t *transaction) heldBy(x *consumer) (n int) {
	if t == nil {
		return 0
	}
	for i := range t.settles {
		for _, o := range t.settles[i].taken {
			if o.x == x {
				n++
			}
		}
	}
	return n
}

// transact runs the methods of class tx.
func (ch *channel) transact(m wire.Method) error {
	if _, selects := m.(*wire.TxSelect); selects {
		if ch.confirms {
			return refuse(wire.PreconditionFailed, m.ID(), "cannot switch from confirm to tx mode")
		}
		if ch.tx == nil {
			ch.tx = ch.c.begin()
			ch.show()
		}
		ch.send(&wire.TxSelectOK{})
		return nil
	}
	if ch.tx == nil {
		return refuse(wire.PreconditionFailed, m.ID(), "channel is not transactional")
	}
	t := ch.tx
	defer t.end()
	ch.tx = ch.c.begin()
	if _, rolls := m.(*wire.TxRollback); rolls {
		t.rollback(ch)
		ch.send(&wire.TxRollbackOK{})
		return nil
	}
	if err := t.commit(ch); err != nil {
		return err
	}
	ch.send(&wire.TxCommitOK{})
	return nil
}

// rollback drops the publishes and reopens the settled deliveries.
func (t *transaction) rollback(ch *channel) {
	ch.c.mu.Lock()
	defer ch.c.mu.Unlock()
	var taken []open
	for i := range t.settles {
		taken = append(taken, t.settles[i].taken...)
	}
	ch.unsettled.putBack(taken)
}

// commit publishes and waits for the queues' decisions; then it settles, and waits until the
// settlements are stored too.
func (t *transaction) commit(ch *channel) error {
	err := ch.catchUp(wire.TxCommitID) // what was settled without the transaction is not of this commit
	if err == nil {
		err = t.check()
	}
	if err == nil {
		err = t.store(ch)
	}
	if err != nil {
		t.rollback(ch)
		return err
	}
	before := t.void()
	for i := range t.settles {
		lost, err := ch.decide(t.settles[i].taken, t.settles[i].how)
		if err == nil && lost > 0 {
			err = refuse(wire.PreconditionFailed, wire.TxCommitID,
				"partial tx completion: delivery %d was returned or dead-lettered, and not settled; the messages are published", lost)
		}
		if err != nil {
			t.settles = t.settles[i:]
			t.rollback(ch)
			return err
		}
	}
	defer ch.endSettled() // afterwards nobody could say whether its settlements are stored
	if err := ch.catchUp(wire.TxCommitID); err != nil {
		return err
	}
	if t.void() > before {
		return refuse(wire.PreconditionFailed, wire.TxCommitID,
			"partial tx completion: a delivery is back in its queue, because it was held for too long, and was not settled; the messages are published")
	}
	return nil
}

// void counts the settlements without effect of the consumers whose deliveries the transaction settles: their queues alone
// knew that the time was over.
func (t *transaction) void() (n uint64) {
	seen := map[*consumer]bool{}
	for i := range t.settles {
		for _, o := range t.settles[i].taken {
			if o.x != nil && !seen[o.x] {
				seen[o.x] = true
				n += o.x.c.Void()
			}
		}
	}
	return n
}

// check refuses a commit that cannot settle one of its deliveries, because the server has ended the consumer or the
// hold of basic.get.
func (t *transaction) check() error {
	for _, s := range t.settles {
		for _, o := range s.taken {
			if o.x == nil && t.c.s.b.HoldEnded(t.c.ctx, o.token) {
				return refuse(wire.PreconditionFailed, wire.TxCommitID,
					"delivery %d is back in its queue, because it was held for too long; nothing was published or settled", o.tag)
			}
		}
	}
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	for _, s := range t.settles {
		for _, o := range s.taken {
			if o.x != nil && o.x.returned {
				return refuse(wire.PreconditionFailed, wire.TxCommitID,
					"delivery %d was returned or dead-lettered, because the server has ended consumer '%s'; nothing was published or settled", o.tag, o.x.tag)
			}
		}
	}
	return nil
}

// store publishes the messages so that each queue stores all messages routed to it or none. If one message is at fault,
// none is published. store waits for the answers, but no longer than the connection lasts: a node whose log has failed
// may get no answers, and must still be able to stop.
func (t *transaction) store(ch *channel) error {
	var left, refused atomic.Int64
	left.Store(1) // for publishAll itself
	all := make(chan struct{})
	answered := func() {
		if left.Add(-1) == 0 {
			close(all)
		}
	}
	done := ch.done
	ch.done = func(r broker.Result) {
		if r.Kind == broker.Rejected {
			refused.Add(1)
		}
		done(r)
		answered()
	}
	ch.unit = &broker.Unit{}
	err := t.publishAll(ch, &left)
	answered()
	select {
	case <-all:
	case <-ch.c.ctx.Done():
		err = cmp.Or(err, ch.c.ctx.Err())
	}
	ch.done, ch.unit = done, nil
	if n := refused.Load(); err == nil && n > 0 {
		err = refuse(wire.PreconditionFailed, wire.TxCommitID, "partial tx completion: %d of %d messages were refused by a queue; nothing was acknowledged", n, len(t.messages))
	}
	return err
}

// publishAll hands the kept messages to the broker as one unit. Each message adds one to left, and done subtracts it
// when the result is known. A fault drops the whole unit.
func (t *transaction) publishAll(ch *channel, left *atomic.Int64) error {
	for i := range t.messages {
		x := &t.messages[i]
		left.Add(1)
		if err := ch.enqueue(&x.m, &x.message, x.body, x.chance); err != nil {
			ch.unit.Drop()
			return err
		}
	}
	if err := ch.unit.Commit(ch.c.ctx); err != nil {
		return faultOf(err, wire.TxCommitID)
	}
	return nil
}
