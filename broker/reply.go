package broker

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/broker/connections"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/names"
	"github.com/quorate/quorate/catalog"
)

// replyAwaits bounds how long an answer waits for this node's catalog to have the queue that
// it goes to.
const replyAwaits = 5 * time.Second

// replySecretBytes is the length of the secret in an address, a rand.Text.
const replySecretBytes = 26

// replyQueueOf is the name of the queue for an address with a secret. A reader of the name, as in a
// log or a metric, cannot answer.
func replyQueueOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return names.ReplyTo + ":" + hex.EncodeToString(sum[:16])
}

// formerReplyQueueOf is the name that builds give which read no VersionUsers; until that is
// finalised they must understand addresses.
func formerReplyQueueOf(secret string) string { return names.ReplyTo + "." + secret }

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
	r, err := cl.Operator().DeclareQueue(ctx, catalog.DeclareQueue{
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

// ReplyExists reports whether answers to an address have a queue, as far as this node knows
// when it knows of its making. names.ReplyTo itself, which each channel may consume from, is there.
func (b *Broker) ReplyExists(ctx context.Context, vhost, address string) bool {
	return address == names.ReplyTo || b.replyQueue(ctx, vhost, address) != ""
}

// replyQueue returns the queue that an address leads to, "" if there is none, once this node's
// catalog is at its index. The name of such a queue is no address.
func (b *Broker) replyQueue(ctx context.Context, vhost, address string) string {
	secret, number, _ := strings.Cut(strings.TrimPrefix(address, names.ReplyTo+"."), ".")
	index, err := strconv.ParseUint(number, 36, 64)
	cl := b.cluster
	if err != nil || len(secret) != replySecretBytes {
		return ""
	}
	if cl.View().Index() < index {
		ctx, cancel := context.WithTimeout(ctx, replyAwaits)
		defer cancel()
		_ = cl.AwaitView(ctx, index) // if it is not there in time, the answer has no queue
	}
	v := cl.View()
	for _, name := range [...]string{replyQueueOf(secret), formerReplyQueueOf(secret)} {
		if rec, there := v.Queue(vhost, name); there && rec.Index == index {
			return name
		}
	}
	return ""
}

// resolveReplies puts queues in the place of addresses, and what leads nowhere in that of all else
// which looks alike. The view is the one to route by.
func (p *publishing) resolveReplies(ctx context.Context, vhost string, v *catalog.View) *catalog.View {
	for i, key := range p.keys {
		if !names.IsReply(key) {
			continue
		}
		if p.keys[i] = p.b.replyQueue(ctx, vhost, key); p.keys[i] == "" {
			p.keys[i] = names.ReplyTo
		}
		v = p.b.view()
	}
	return v
}
