package broker

import (
	"context"
	"errors"
	"time"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/settletoken"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/message"
)

// Got is the result of Get.
type Got struct {
	Delivery *Delivery // nil: nothing was ready
	Token    string    // for SettleToken; empty with auto-ack or without a delivery
	Ready    uint64    // messages left
	Classic  bool      // whether the queue is a classic queue
}

// Get takes one message (DEL-5).
func (b *Broker) Get(ctx context.Context, vhost, queue string, autoAck bool) (Got, error) {
	q, about, err := b.Queues.ToRead(ctx, vhost, queue)
	if err != nil {
		return Got{}, err
	}
	var seal settletoken.Seal
	if !autoAck {
		if seal, err = b.settleTokens.Seal(ctx); err != nil {
			return Got{}, err
		}
	}
	var asked time.Time
	if b.tracer != nil {
		asked = time.Now()
	}
	cd, token, ready, err := q.Get(ctx, autoAck)
	if err != nil || cd == nil {
		if rec, ok := b.view().QueueByUID(q.UID()); ok && errors.Is(err, traffic.ErrSingleActive) {
			about.Value = string(rec.Type)
		}
		return Got{Ready: ready}, failure.Translate(err, about)
	}
	var d Delivery
	if _, err := decodeDelivery(&d, cd); err != nil {
		return Got{}, errUnreadable(err, about)
	}
	d.ID = 1
	if b.tracer != nil {
		traceReceipt(b.tracer, about, &d, asked)
	}
	g := Got{Delivery: &d, Ready: ready}
	if rec, ok := b.view().QueueByUID(q.UID()); ok {
		g.Classic = rec.Type == catalog.QueueClassic
	}
	if autoAck {
		b.clients.Counters.Delivered.GotAutoAck.Add(1)
	} else {
		b.clients.Counters.Delivered.Got.Add(1)
		g.Token = seal.Text(token)
	}
	return g, nil
}

// HoldEnded reports whether a message that the caller took with Get on this node is known not to be
// held any more: it was returned when its time ran out, or it was settled (DEL-5). A token that
// cannot be read counts as one that holds nothing.
func (b *Broker) HoldEnded(ctx context.Context, token string) bool {
	held, _, err := b.settleTokens.Open(ctx, token)
	if err != nil {
		e, known := errors.AsType[*failure.Error](err)
		return known && e.Class == failure.PreconditionFailed
	}
	return b.cluster.Gateway().HoldEnded(held.ConsumerToken)
}

// SettledBefore reports that a refusal of SettleToken, for a token of this node that is used once,
// comes from an earlier attempt of the node itself: the queue has carried that out, and a leader that
// failed has lost the answer.
func SettledBefore(err error) bool {
	return errors.Is(err, traffic.ErrNotHeld) && errors.Is(err, traffic.ErrUnknownOutcome)
}

// SettleToken decides about a message that the caller took with Get, on any node (AM-8). If the
// caller no longer holds the message, the refusal names the argument settle_token (DEL-6).
func (b *Broker) SettleToken(ctx context.Context, token string, o Outcome, failed bool, annotations message.Table, delay Delay) error {
	held, about, err := b.settleTokens.Open(ctx, token)
	if err != nil {
		return err
	}
	t := held.ConsumerToken
	if t.OfStream() {
		about.Class, about.Arg = failure.PreconditionFailed, "settle_token"
		about.Reason = "is that of a Consume stream; settle its deliveries there, or publish with it"
		return &about
	}
	d, err := decision(o, failed, annotations, delay, about)
	if err != nil {
		return err
	}
	err = b.cluster.Gateway().DecideToken(ctx, t, d)
	return failure.Translate(err, held.About(err, about))
}

// GiveBack returns messages that Get took, for example when their client has gone (DEL-8), in the order
// in which they were delivered. It is for listeners. It does not depend on the client's connection, and
// takes a few seconds at most; a queue that has no leader then takes them back later.
func (b *Broker) GiveBack(tokens []string) error {
	ctx, stop := context.WithTimeout(identity.WithIdentity(b.life, identity.Itself()), giveBackTimeout)
	defer stop()
	var held []gateway.ConsumerToken
	var unread error // the last one
	for _, token := range tokens {
		t, _, err := b.settleTokens.Open(ctx, token)
		if err != nil {
			unread = err
			continue
		}
		held = append(held, t.ConsumerToken)
	}
	return errors.Join(unread, b.cluster.Gateway().GiveBack(ctx, held))
}

// giveBackTimeout limits GiveBack, because its client is gone and cancels nothing.
const giveBackTimeout = 5 * time.Second
