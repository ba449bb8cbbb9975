package amqp

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"sort"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/failure"
)

// open is a delivery that the client has not settled.
type open struct {
	tag   uint64
	x     *consumer // nil: taken by basic.get, with its token
	id    uint64
	token string
	gone  bool
}

// unsettled holds a channel's open deliveries by ascending tag.
type unsettled struct {
	all  []open
	gone int
	got  int // taken by basic.get: their settlement waits for the queue
}

func (u *unsettled) add(o open) {
	u.all = append(u.all, o)
	u.got += o.gets()
}

// gets counts a delivery that basic.get has taken.
func (o *open) gets() int {
	if o.x == nil && !o.gone {
		return 1
	}
	return 0
}

// find returns the place of a tag, or where it would be.
func (u *unsettled) find(tag uint64) (at int, there bool) {
	at = sort.Search(len(u.all), func(i int) bool { return u.all[i].tag >= tag })
	return at, at < len(u.all) && u.all[at].tag == tag && !u.all[at].gone
}

// take removes one delivery, or with multiple all deliveries up to it; tag 0 with multiple stands
// for all.
func (u *unsettled) take(dst []open, tag uint64, multiple bool) (taken []open, known bool) {
	if tag == 0 && multiple {
		tag = math.MaxUint64
	}
	at, there := u.find(tag)
	if !multiple {
		if !there {
			return dst, false
		}
		dst = append(dst, u.all[at])
		u.got -= u.all[at].gets()
		u.all[at] = open{tag: tag, gone: true}
		u.gone++
		u.tidy()
		return dst, true
	}
	if !there && tag != math.MaxUint64 {
		return dst, false
	}
	end := at
	if there {
		end++
	}
	for i := range u.all[:end] {
		if u.all[i].gone {
			u.gone--
			continue
		}
		dst = append(dst, u.all[i])
		u.got -= u.all[i].gets()
	}
	n := copy(u.all, u.all[end:])
	clear(u.all[n:])
	u.all = u.all[:n]
	return dst, true
}

// tidy removes the settled entries once they are the majority.
func (u *unsettled) tidy() {
	if u.gone == len(u.all) || u.gone >= 64 && 2*u.gone >= len(u.all) {
		u.dropGone()
	}
}

// dropGone removes the settled entries.
func (u *unsettled) dropGone() {
	kept := u.all[:0]
	for _, o := range u.all {
		if !o.gone {
			kept = append(kept, o)
		}
	}
	clear(u.all[len(kept):])
	u.all, u.gone = kept, 0
}

func (u *unsettled) takeAll() []open {
	all, _ := u.take(nil, 0, true)
	return all
}

// putBack makes deliveries unsettled again. It first removes the entries of those that were taken one by one, so that
// no tag is in the list twice.
func (u *unsettled) putBack(taken []open) {
	u.dropGone()
	for i := range taken {
		u.add(taken[i])
	}
	slices.SortFunc(u.all, func(a, b open) int { return cmp.Compare(a.tag, b.tag) })
}

// heldBy returns how many unsettled deliveries the consumer has. It walks over all deliveries; only cancel has to pay
// for that.
func (u *unsettled) heldBy(x *consumer) (n int) {
	for i := range u.all {
		if u.all[i].x == x && !u.all[i].gone {
			n++
		}
	}
	return n
}

// settle is a decision of the client about deliveries.
type settle struct {
	outcome broker.Outcome
	failed  bool
	method  wire.MethodID
}

func (ch *channel) ack(m *wire.BasicAck) error {
	return ch.settle(m.DeliveryTag, m.Multiple, settle{outcome: broker.Ack, method: wire.BasicAckID})
}

// settle decides now, or at tx.commit on a transactional channel.
func (ch *channel) settle(tag uint64, multiple bool, o settle) error {
	if ch.tx != nil {
		return ch.tx.settle(ch, tag, multiple, o)
	}
	return ch.settleNow(tag, multiple, o)
}

// settleNow takes the deliveries out under mu and decides on them without it. An unknown tag closes
// the channel (AMQP 0-9-1 §1.8.3.13).
func (ch *channel) settleNow(tag uint64, multiple bool, o settle) error {
	var few [16]open
	ch.c.mu.Lock()
	taken, known := ch.unsettled.take(few[:0], tag, multiple)
	ch.c.mu.Unlock()
	if !known {
		return refuse(wire.PreconditionFailed, o.method, "unknown delivery tag %d", tag)
	}
	defer ch.endSettled()
	_, err := ch.decide(taken, o)
	return err
}

// decide passes decisions to the consumers, batching neighbouring deliveries of one consumer. Deliveries that are no
// longer held were taken back, because their time ran out or their consumer timed out, or their queue is gone. The
// client could not know (CT-2). lost is the tag of the first delivery that is back in its queue, or dead-lettered
// with it; 0: none.
func (ch *channel) decide(taken []open, o settle) (lost uint64, err error) {
	var ids []uint64
	for i := 0; i < len(taken); {
		x := taken[i].x
		if x == nil {
			err := ch.c.s.b.SettleToken(ch.c.ctx, taken[i].token, o.outcome, o.failed, nil, broker.Delay{})
			switch {
			case err == nil, broker.SettledBefore(err):
			case !returned(err):
				return lost, faultOf(err, o.method)
			case !goneWithQueue(err):
				lost = cmp.Or(lost, taken[i].tag)
			}
			i++
			continue
		}
		ids = ids[:0]
		for i < len(taken) && taken[i].x == x && len(ids) < broker.MaxSettlementIDs {
			ids = append(ids, taken[i].id)
			i++
		}
		x.decided = true
		unknown, err := x.c.Settle(&broker.Settlement{IDs: ids, Outcome: o.outcome, Failed: o.failed})
		if err != nil {
			return lost, faultOf(err, o.method)
		}
		if len(unknown) > 0 && outlives(x.c.Missed()) {
			at := slices.IndexFunc(taken, func(t open) bool { return t.x == x && t.id == unknown[0] })
			lost = cmp.Or(lost, taken[at].tag)
		}
		ch.decided(x, len(ids))
	}
	return lost, nil
}

// returned reports that a message is back in its queue, or gone with its queue.
func returned(err error) bool {
	e, ok := errors.AsType[*failure.Error](err)
	return ok && (e.Class == failure.NotFound || e.Class == failure.PreconditionFailed && e.State)
}

// giveBack returns messages that the channel took with basic.get and did not settle; consumers return
// theirs. It returns a channel that is closed when the queues have them.
func (ch *channel) giveBack(all []open) <-chan struct{} {
	returned := make(chan struct{})
	var tokens []string
	for i := range all {
		if all[i].x == nil {
			tokens = append(tokens, all[i].token)
		}
	}
	if len(tokens) == 0 {
		close(returned)
		return returned
	}
	ch.c.s.running.Go(func() { // the connection may have ended, and its context with it
		defer close(returned)
		if err := ch.c.s.b.GiveBack(tokens); err != nil {
			ch.c.log.Debug("messages taken with basic.get could not be returned yet; their holds will expire", "error", err)
		}
	})
	return returned
}

// recover requeues all that is unsettled on the channel. Redelivery to the same consumer,
// requeue=false, is refused as RabbitMQ refuses it.
func (ch *channel) recover(requeue bool, id wire.MethodID) error {
	if !requeue {
		return refuse(wire.NotImplemented, id, "requeue=false")
	}
	ch.c.mu.Lock()
	all := ch.unsettled.takeAll()
	ch.c.mu.Unlock()
	defer ch.endSettled()
	_, err := ch.decide(all, settle{outcome: broker.Requeue, method: id})
	return err
}
