package cases

import (
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

// TTL-1, DL-31, DL-35.
func TestT064(t *testing.T) {
	k := begin(t, "the shorter TTL counts; the message's own is shown and kept as original")
	d := k.queue("d", nil)
	q := k.queue("q", dlx(d, args{"x-message-ttl": 3000}))
	_, err := k.try(q, "m", expires("100000"))
	k.must(err)
	m := k.get(q, false)
	k.same("expiration in q", m.Expiration, "100000")
	k.settle(m, nackRequeue)
	dead := k.get(d, true)
	k.same("expiration in d", dead.Expiration, "")
	k.same("death", death(&dead.Received, 0), q+" expired 1")
	if len(dead.Deaths) == 0 || dead.Deaths[0].TTL == nil || *dead.Deaths[0].TTL != 100*time.Second {
		k.Errorf("deaths %+v do not hold the message's own TTL", dead.Deaths)
	}
}

// TTL-1.
func TestT065(t *testing.T) {
	k := begin(t, "TTL 0 reaches only a consumer that waits")
	d := k.queue("d", nil)
	q := k.queue("q", dlx(d, args{"x-message-ttl": 0}))
	k.publish(q, "first")
	k.same("dead letter", k.bodies(d, 1), []string{"first"})
	s := k.consume(q, 0, func(c *client.ConsumeConfig) { c.AutoAck = true })
	k.publish(q, numbers(1, 20)...)
	k.same("deliveries", deliveredBodies(k.receive(s, 20)), numbers(1, 20))
	k.empty(d)
}

// TTL-3.
func TestT066(t *testing.T) {
	k := begin(t, "a return does not renew the TTL")
	q := k.queue("q", nil)
	_, err := k.try(q, "long", expires("60000"))
	k.must(err)
	end := k.peek(q, inReady, client.Filter{})[0].State.Expires
	long := k.get(q, false)
	begin := time.Now()
	_, err = k.try(q, "short", expires("3000"))
	k.must(err)
	short := k.get(q, false)
	time.Sleep(time.Until(begin.Add(700 * time.Millisecond)))
	k.settle(short, nackRequeue)
	k.settle(long, nackRequeue)
	k.ready(q, 1)
	if held := time.Since(begin); held < 2900*time.Millisecond {
		k.Errorf("expired after %v, want 3 s", held)
	}
	left := k.peek(q, inReady, client.Filter{})
	k.same("left", peekedBodies(left), "long")
	k.same("when it expires", left[0].State.Expires, end)
}

// TTL-3.
func TestT067(t *testing.T) {
	k := begin(t, "a message that expired while it was unacked is not delivered again")
	d := k.queue("d", nil)
	q := k.queue("q", dlx(d))
	_, err := k.try(q, "m", expires("2000"))
	k.must(err)
	m := k.get(q, false)
	time.Sleep(2300 * time.Millisecond)
	k.settle(m, nackRequeue)
	dead := k.get(d, true)
	k.same("death", death(&dead.Received, 0), q+" expired 1")
	k.same("left in q", k.stats(q).Messages, 0)
}

// TTL-3.
func TestT070(t *testing.T) {
	k := begin(t, "each queue's copy expires by itself")
	x := k.exchange("x", "fanout", client.Exchange{})
	q1, q2 := k.queue("q1", args{"x-message-ttl": 100}), k.queue("q2", nil)
	k.bind(x, q1, "")
	k.bind(x, q2, "")
	_, err := k.try("", "m", via(x))
	k.must(err)
	k.ready(q1, 0)
	k.same("q2", k.stats(q2).MessagesReady, 1)
}

// TTL-2.
func TestT071(t *testing.T) {
	k := begin(t, "a consumer without credit gets nothing expired later")
	q := k.queue("q", args{"x-message-ttl": 500})
	s := k.consume(q, 1)
	k.publish(q, "1", "2", "3")
	first := k.receive(s, 1)[0]
	k.ready(q, 0)
	k.must(first.Ack())
	k.nothing(s)
}

// TTL-5.
func TestT111(t *testing.T) {
	k := begin(t, "200 expired messages are dead-lettered in order, each once")
	for name, more := range map[string]args{"most": nil, "least": alo()} {
		d := k.queue("d-"+name, nil)
		q := k.queue("q-"+name, dlx(d, more, args{"x-message-ttl": 300}))
		p, err := k.client.Publisher(client.PublisherConfig{})
		k.must(err)
		for _, b := range numbers(0, 199) {
			k.must(p.PublishAsync(k.ctx, client.Message{RoutingKey: q, Body: []byte(b)}, nil))
		}
		k.must(p.Close(k.ctx))
		k.ready(d, 200)
		k.same(name, k.bodies(d, 200), numbers(0, 199))
	}
}
