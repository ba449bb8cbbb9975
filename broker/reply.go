package broker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/broker/names"
	"github.com/quorate/quorate/catalog"
)

// replyAwaits limits how long an answer waits until this node's view of the catalog has the queue
// that the answer goes to.
const replyAwaits = 5 * time.Second

// replySecretBytes is the length of the secret in an address, a rand.Text.
const replySecretBytes = 26

// replyQueueOf returns the name of the queue for the address with a secret. The name is a hash, so
// that whoever reads it, in a log or a metric, cannot send answers.
func replyQueueOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return names.ReplyTo + ":" + hex.EncodeToString(sum[:16])
}

// formerReplyQueueOf returns the name that builds without VersionUsers use. Until that version is
// finalised, such builds must understand the addresses.
func formerReplyQueueOf(secret string) string { return names.ReplyTo + "." + secret }

// ReplyExists reports whether the queue for answers to an address exists. If this node's view is
// too old to know, it waits for a newer one. names.ReplyTo itself always exists, because each
// channel may consume from it.
func (b *Broker) ReplyExists(ctx context.Context, vhost, address string) bool {
	return address == names.ReplyTo || b.replyQueue(ctx, vhost, address) != ""
}

// replyQueue returns the queue to which an address leads, or "". It waits until this node's view has the catalog's
// index in the address. The name of such a queue is not an address.
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
		_ = cl.AwaitView(ctx, index) // if the view stays too old, the answer has no queue
	}
	v := cl.View()
	for _, name := range [...]string{replyQueueOf(secret), formerReplyQueueOf(secret)} {
		if rec, there := v.Queue(vhost, name); there && rec.Index == index {
			return name
		}
	}
	return ""
}

// resolveReplies replaces addresses of reply queues by the names of the queues, and everything else
// that looks like an address by a key that leads nowhere. It returns the view to route with, which
// may be newer than v.
func (b *Broker) resolveReplies(ctx context.Context, vhost string, keys []string, v *catalog.View) *catalog.View {
	for i, key := range keys {
		if !names.IsReply(key) {
			continue
		}
		if keys[i] = b.replyQueue(ctx, vhost, key); keys[i] == "" {
			keys[i] = names.ReplyTo
		}
		v = b.view()
	}
	return v
}
