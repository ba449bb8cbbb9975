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

// ConsumeReplies makes a queue for answers, which ends with its one consumer or the context's
// connection, and consumes from it; o.Queue is ignored and o.AutoAck is set. It takes no
// permission but the ones to answer. The address is the routing key by which answers come
// through the default exchange of any node. It holds a secret, which the queue's name is made from,
// and the catalog's index from which on there is the queue, so that a node that is behind knows
// what to wait for.
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
		index = rec.Index // a repeat of the command has a later one
	}
	o.AutoAck = true
	c, err = b.consume(ctx, q, about, o)
	return c, names.ReplyTo + "." + secret + "." + strconv.FormatUint(index, 36), err
}
