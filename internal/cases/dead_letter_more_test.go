package cases

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

// DL-43.
func TestT330(t *testing.T) {
	k := begin(t, "cycles are allowed by choice, and bounded by hops")
	round := args{"x-message-ttl": 20, "x-dead-letter-exchange": "", "x-dead-letter-cycle": "allow", "x-dead-letter-max-hops": 3}
	lost := k.queue("lost", round)
	k.publish(lost, "m")
	k.eventually("it has died four times and is gone", func() error {
		if s := k.stats(lost); s.DeadLettered["expired"] != 4 || s.Messages != 0 {
			return fmt.Errorf("deaths %v, %d messages", s.DeadLettered, s.Messages)
		}
		return nil
	})
	for name, v := range alo() {
		round[name] = v
	}
	kept := k.queue("kept", round)
	k.publish(kept, "m")
	k.trouble(kept, "died 4 times")
	k.backlog(kept, 1)
	k.eventually("the cause is counted", func() error {
		if n := k.stats(kept).DeadLettersWaiting["max_hops"]; n != 1 {
			return fmt.Errorf("%d letters wait for it", n)
		}
		return nil
	})
	for q, want := range map[string]string{lost: "expired at_most_once 4", kept: "expired at_least_once 4"} { // DL-52
		var got []string
		for _, d := range k.stats(q).Discarded {
			got = append(got, fmt.Sprint(d.Reason, " ", d.Strategy, " ", d.Count))
		}
		k.same("discarded", got, []string{want})
	}
	// More is allowed, and somewhere to go: a policy cannot raise an argument.
	_, err := k.client.DeclareQueue(k.ctx, client.Queue{Name: kept, Arguments: args{"x-dead-letter-max-hops": 4}})
	k.class("other hops", err, client.PreconditionFailed)
	_, err = k.client.DeclareQueue(k.ctx, client.Queue{Name: k.name("bad"), Arguments: args{"x-dead-letter-max-hops": 0}})
	k.class("no hops", err, client.PreconditionFailed)
}

// trouble waits until a queue says so about its backlog.
func (k *kase) trouble(queue, want string) {
	k.Helper()
	k.eventually("why dead letters of "+queue+" wait", func() error {
		if text := k.stats(queue).LastDeadLetterError; !strings.Contains(text, want) {
			return fmt.Errorf("it says %q", text)
		}
		return nil
	})
}

// DL-27.
func TestT331(t *testing.T) {
	k := begin(t, "the end of at-least-once keeps the backlog, or drops it where that is asked for")
	x, d := k.exchange("x", "fanout", client.Exchange{}), k.queue("d", nil)
	for _, way := range []string{"drop", "drain"} {
		q := k.queue(way, args{
			"x-dead-letter-exchange": x, "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish", "x-dead-letter-on-switch": way,
		})
		k.publish(q, "1", "2")
		for range 2 {
			k.settle(k.get(q, false), reject)
		}
		k.backlog(q, 2)
		k.policy(way, args{"overflow": "drop-head"}, func(p *client.Policy) { p.Pattern, p.Operator = "^"+q+"$", true })
		var left uint64
		k.eventually("it is sent at most once", func() error {
			left = k.stats(q).MessagesDLX
			k.publish(q, "lost")
			k.settle(k.get(q, false), reject)
			if k.stats(q).MessagesDLX > left {
				return errNotYet
			}
			return nil
		})
		if way == "drop" {
			k.backlog(q, 0)
			k.same("dropped", fmt.Sprint(k.stats(q).DeadLettersDropped >= 2, k.stats(q).DeadLetterBytesDropped >= 2), "true true")
			continue
		}
		k.backlog(q, left)
		k.bind(x, d, "")
		k.ready(d, left)
		k.same("forwarded", k.bodies(d, 2), []string{"1", "2"})
		k.backlog(q, 0)
	}
}

// DL-20, G-5.
func TestT332(t *testing.T) {
	k := begin(t, "at least once with drop-head, where the backlog has a limit")
	x, d := k.exchange("x", "fanout", client.Exchange{}), k.queue("d", nil)
	q := k.queue("q", args{
		"x-dead-letter-exchange": x, "x-dead-letter-strategy": "at-least-once", "x-max-length": 2, "x-dead-letter-backlog-limit": 3,
	})
	k.publish(q, numbers(1, 5)...)
	k.same("backlog", k.stats(q).MessagesDLX, 3)
	_, err := k.try(q, "6")
	k.rejected(err, "")
	k.bind(x, d, "")
	k.same("dead letters", k.bodies(d, 3), numbers(1, 3))
	k.eventually("the backlog is empty", func() error {
		if n := k.stats(q).MessagesDLX; n > 0 {
			return errNotYet
		}
		return nil
	})
	k.publish(q, "7")
	k.same("dropped for it", k.bodies(d, 1), []string{"4"})
	k.same("left", k.bodies(q, 2), []string{"5", "7"})
}

// G-22.
func TestT333(t *testing.T) {
	k := begin(t, "a message is settled and its outputs are published, both or neither")
	q, a, b := k.queue("q", nil), k.queue("a", nil), k.queue("b", nil)
	x := k.exchange("x", "direct", client.Exchange{})
	k.publish(q, "1", "2", "3")
	to := func(key, body string) client.Message { return client.Message{RoutingKey: key, Body: []byte(body)} }

	in := k.get(q, false)
	k.must(k.client.SettleAndPublish(k.ctx, in.Token, to(a, "1a"), to(b, "1b"), to(a, "1c")))
	k.same("outputs", append(k.bodies(a, 2), k.bodies(b, 1)...), []string{"1a", "1c", "1b"})
	k.class("a second time", k.client.SettleAndPublish(k.ctx, in.Token, to(a, "again")), client.PreconditionFailed)

	// A faulty output refuses all: the message is still held.
	in = k.get(q, false)
	missing, must := to(a, "none"), to("nobody", "none")
	missing.Exchange, must.Mandatory = k.name("missing"), true
	k.class("no such exchange", k.client.SettleAndPublish(k.ctx, in.Token, to(a, "none"), missing), client.NotFound)
	k.class("mandatory", k.client.SettleAndPublish(k.ctx, in.Token, to(a, "none"), must), client.PreconditionFailed)
	k.same("held", k.stats(q).MessagesUnacknowledged, 1)

	// An output without a route waits for one.
	later := to("k", "2k")
	later.Exchange = x
	k.must(k.client.SettleAndPublish(k.ctx, in.Token, later))
	k.trouble(q, "routes key")
	k.bind(x, b, "k")
	out := k.get(b, true)
	k.same("output", fmt.Sprint(string(out.Body), " ", out.Exchange, " ", out.RoutingKey, " ", len(out.Deaths)), "2k "+x+" k 0")

	// What has returned is not held.
	in = k.get(q, false)
	k.settle(in, nackRequeue)
	k.class("returned", k.client.SettleAndPublish(k.ctx, in.Token, to(a, "none")), client.PreconditionFailed)
	k.same("back", k.bodies(q, 1), []string{"3"})
	k.empty(a)
}

// G-11.
func TestT334(t *testing.T) {
	k := begin(t, "a republished message goes on counting its deaths where the vhost wants that")
	deaths := client.Table{"x-death": []any{client.Table{
		"queue": k.name("q"), "reason": "rejected", "count": int64(7), "time": time.Unix(1700000000, 0), "exchange": "", "routing-keys": []any{"k"},
	}}}
	for _, imports := range []bool{true, false} {
		vhost := k.name(fmt.Sprint(imports))
		_, err := k.client.PutVHost(k.ctx, client.VHost{Name: vhost, ImportDeaths: imports})
		k.must(err)
		k.Cleanup(func() { _, _ = k.client.DeleteVHost(k.ctx, vhost) })
		for name, a := range map[string]args{k.name("q"): dlx(k.name("d")), k.name("d"): nil} {
			_, err := k.client.DeclareQueue(k.ctx, client.Queue{VHost: vhost, Name: name, Arguments: a})
			k.must(err)
		}
		in := func(m *client.Message) { m.VHost = vhost }
		_, err = k.try(k.name("q"), "m", headers(deaths), in)
		k.must(err)
		var m *client.Taken
		take := func(queue string) {
			k.eventually("a message in "+queue, func() (err error) {
				if m, err = k.client.Get(k.ctx, vhost, queue, false); err == nil && m == nil {
					err = errNotYet
				}
				return err
			})
		}
		take(k.name("q"))
		k.settle(m, reject)
		take(k.name("d"))
		want := map[bool]int{true: 8, false: 1}[imports]
		k.same("death", death(&m.Received, 0), fmt.Sprint(k.name("q"), " rejected ", want))
		k.same("x-death-count", m.Headers["x-death-count"], want)
	}
}
