package broker

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/catalog"
)

// ReplyName is what clients of AMQP 0-9-1 consume from, and put into reply_to, to get answers
// without a queue that they would have to name (AM-3).
const ReplyName = "amq.rabbitmq.reply-to"

// replyAwaits bounds how long an answer waits for this node's catalog to have the queue that
// it goes to.
const replyAwaits = 5 * time.Second

// ConsumeReplies makes a queue for answers, which ends with its one consumer or the context's
// connection, and consumes from it; o.Queue is ignored and o.AutoAck is set. It takes no
// permission but the ones to answer. The address is the routing key by which answers come
// through the default exchange of any node. It holds the queue's name and the catalog's index
// from which on there is the queue, so that a node that is behind knows what to wait for.
func (b *Broker) ConsumeReplies(ctx context.Context, o Consume) (c *Consumer, address string, err error) {
	cl, err := b.attachedCluster()
	if err != nil {
		return nil, "", err
	}
	about := Error{VHost: o.VHost, Kind: "queue", Name: ReplyName + "." + rand.Text()}
	owner, err := b.newOwner(ctx, about)
	if err != nil {
		return nil, "", err
	}
	r, err := cl.DeclareQueue(ctx, catalog.DeclareQueue{
		VHost: o.VHost, Name: about.Name, Type: catalog.QueueClassic, Exclusive: true, AutoDelete: true, Owner: owner,
	}, 1, false)
	if err != nil {
		return nil, "", translate(err, about)
	}
	connectionOf(ctx).owns(r.UID)
	q, err := cl.Queue(r.UID)
	if err != nil {
		return nil, "", translate(err, about)
	}
	o.AutoAck = true
	c, err = b.consume(ctx, q, about, o)
	return c, about.Name + "." + strconv.FormatUint(r.Index, 36), err
}

// ReplyExists tells whether answers to an address have a queue, as far as this node knows
// when it knows of its making. ReplyName itself, which each channel may consume from, is there.
func (b *Broker) ReplyExists(ctx context.Context, vhost, address string) bool {
	if address == ReplyName {
		return true
	}
	queue := b.replyQueue(ctx, address)
	v := b.view()
	if v == nil || queue == "" {
		return false
	}
	_, there := v.Queue(vhost, queue)
	return there
}

// replyQueue returns the queue of an address, "" if it is none, once this node's catalog is
// at its index.
func (b *Broker) replyQueue(ctx context.Context, address string) string {
	at := strings.LastIndexByte(address, '.')
	if at <= len(ReplyName) || !strings.HasPrefix(address, ReplyName+".") {
		return ""
	}
	index, err := strconv.ParseUint(address[at+1:], 36, 64)
	cl := b.cluster.Load()
	if err != nil || cl == nil {
		return ""
	}
	queue := address[:at]
	if cl.View().Index() < index {
		ctx, cancel := context.WithTimeout(ctx, replyAwaits)
		defer cancel()
		_ = cl.AwaitView(ctx, index) // if it is not there in time, the answer has no queue
	}
	return queue
}
