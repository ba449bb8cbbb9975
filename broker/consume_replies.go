package broker

import (
	"context"
	"crypto/rand"
	"strconv"

	"github.com/quorate/quorate/broker/connections"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/names"
	"github.com/quorate/quorate/catalog"
)

// ConsumeReplies creates a queue for answers and consumes from it. The queue ends with this one
// consumer, or with the connection of the context. ConsumeReplies ignores o.Queue and sets
// o.AutoAck. The caller needs no permissions; only those who answer need them.
//
// The address is the routing key with which an answer reaches the queue through the default
// exchange of any node. It contains a secret, from which the name of the queue is derived. It also
// contains the catalog's index at which the queue was created, so that a node whose view is behind
// knows what to wait for.
func (b *Broker) ConsumeReplies(ctx context.Context, o Consume) (c *Consumer, address string, err error) {
	cl := b.cluster
	about := failure.Error{VHost: o.VHost, Kind: "queue", Name: names.ReplyTo}
	owner, err := b.Connections.NewOwner(ctx, about)
	if err != nil {
		return nil, "", err
	}
	by, err := b.Logins.DeclaredBy(ctx)
	if err != nil {
		return nil, "", err
	}
	secret := rand.Text()
	name := replyQueueOf(secret)
	if cl.View().Version() < catalog.VersionUsers {
		name = formerReplyQueueOf(secret)
	}
	r, err := cl.Operator().DeclareUnnamed(ctx, catalog.DeclareQueue{
		VHost: o.VHost, Name: name, Type: catalog.QueueClassic, Exclusive: true, AutoDelete: true, Owner: owner, DeclaredBy: by,
	}, 1, false)
	if err != nil {
		return nil, "", aboutDeclaration(failure.Translate(err, about), nil, nil)
	}
	connections.ConnectionOf(ctx).Owns(r.UID)
	q, err := cl.Gateway().Queue(r.UID)
	if err != nil {
		return nil, "", failure.Translate(err, about)
	}
	index := r.Index
	if rec, ok := cl.View().QueueByUID(r.UID); ok {
		index = rec.Index // x
	}
	o.AutoAck = true
	c, err = b.consume(ctx, q, about, o)
	return c, names.ReplyTo + "." + secret + "." + strconv.FormatUint(index, 36), err
}
