package policy_test

import (
	"testing"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/quorumq"
)

// Q-14, DL-20: arguments become the machine's configuration.
func TestQueueConfig(t *testing.T) {
	text := func(name, v string) message.Field { return message.Field{Name: name, Value: message.String(v)} }
	number := func(name string, v int64) message.Field { return message.Field{Name: name, Value: message.Int64(v)} }
	edit := func(f func(*quorumq.Config)) quorumq.Config {
		c := quorumq.DefaultConfig()
		c.ConsumerTimeoutMs = argument.DefaultConsumerTimeoutMs
		f(&c)
		return c
	}
	rows := []struct {
		args message.Table
		want quorumq.Config
	}{
		{nil, edit(func(*quorumq.Config) {})},
		{message.Table{number("x-consumer-timeout", 0)}, quorumq.DefaultConfig()},
		{
			message.Table{number("x-consumer-timeout", 5), number("x-expires", 7)},
			edit(func(c *quorumq.Config) { c.ConsumerTimeoutMs, c.ExpiresMs = 5, 7 }),
		},
		{
			message.Table{number("x-max-length", 5), number("x-max-length-bytes", 6), number("x-message-ttl", 7), number("x-delivery-limit", -3)},
			edit(func(c *quorumq.Config) { c.MaxLength, c.MaxLengthBytes, c.MessageTTLMs, c.DeliveryLimit = 5, 6, 7, -1 }),
		},
		{
			message.Table{text("x-overflow", "reject-publish"), text("x-dead-letter-exchange", ""), text("x-dead-letter-strategy", "at-least-once")},
			edit(func(c *quorumq.Config) {
				c.Overflow, c.DeadLetter = quorumq.OverflowRejectPublish, quorumq.DeadLetterAtLeastOnce
			}),
		},
		{
			message.Table{text("x-dead-letter-exchange", "x"), text("x-dead-letter-strategy", "at-least-once")}, // degrades
			edit(func(c *quorumq.Config) { c.DeadLetter = quorumq.DeadLetterAtMostOnce }),
		},
		{
			message.Table{text("x-overflow", "reject-publish-dlx"), number("x-consumer-disconnected-timeout", 9)},
			edit(func(c *quorumq.Config) { c.Overflow, c.DisconnectedTimeoutMs = quorumq.OverflowRejectPublishDLX, 9 }),
		},
	}
	for _, row := range rows {
		var matcher policy.Matcher
		if got := matcher.QueueConfig(catalog.New().View(), &catalog.QueueRecord{Arguments: row.args}); got != row.want {
			t.Errorf("%v gives %+v, want %+v", row.args, got, row.want)
		}
	}
}

// DL-20, Q-18, RE-4: what follows from a queue's settings besides the machine's configuration.
func TestFollows(t *testing.T) {
	text := func(name, v string) message.Field { return message.Field{Name: name, Value: message.String(v)} }
	number := func(name string, v int64) message.Field { return message.Field{Name: name, Value: message.Int64(v)} }
	deadLetters := []message.Field{text("x-dead-letter-exchange", "x"), text("x-dead-letter-strategy", "at-least-once")}
	for name, row := range map[string]struct {
		args             message.Table
		transient        bool
		degraded, drains bool
		members          int
	}{
		"nothing set":             {members: argument.DefaultGroupSize},
		"transient":               {transient: true, members: 1},
		"drop-head":               {args: deadLetters, degraded: true, members: 3},
		"reject-publish":          {args: append(deadLetters, text("x-overflow", "reject-publish")), members: 3},
		"dead letters at the end": {args: append(deadLetters[:1:1], text("x-on-delete", "dead-letter")), drains: true, members: 3},
		"none to send to":         {args: message.Table{text("x-on-delete", "dead-letter")}, members: 3},
		"asked for":               {args: message.Table{number("x-quorum-initial-group-size", 5)}, members: 5},
		"asked for, then more":    {args: message.Table{number("x-quorum-initial-group-size", 3), number("x-quorum-target-group-size", 7)}, members: 7},
	} {
		var matcher policy.Matcher
		v, q := catalog.New().View(), &catalog.QueueRecord{Type: catalog.QueueQuorum, Durable: !row.transient, Arguments: row.args}
		if got := matcher.Degraded(v, q) != ""; got != row.degraded {
			t.Errorf("%s: degraded is %t", name, got)
		}
		if got := matcher.DrainsBeforeDelete(v, q); got != row.drains {
			t.Errorf("%s: drains before the end is %t", name, got)
		}
		if got := matcher.GroupSize(v, q); got != row.members {
			t.Errorf("%s: %d members, want %d", name, got, row.members)
		}
	}
}
