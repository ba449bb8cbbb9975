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
