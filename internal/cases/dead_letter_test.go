package cases

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

// DL-30 to DL-34.
func TestT087(t *testing.T) {
	k := begin(t, "a rejected message tells its death")
	d := k.queue("d", nil)
	q := k.queue("q", dlx(d))
	k.publish(q, "m")
	k.settle(k.get(q, false), client.Decision{Kind: client.Discard})
	m := k.get(d, true)
	k.same("death", death(&m.Received, 0), q+" rejected 1")
	if len(m.Deaths) != 1 {
		k.Fatalf("deaths %+v, want one", m.Deaths)
	}
	k.same("exchange and keys", fmt.Sprint(m.Deaths[0].Exchange, m.Deaths[0].RoutingKeys), fmt.Sprint("", []string{q}))
	if age := time.Since(m.Deaths[0].First); age < -time.Second || age > time.Minute {
		k.Errorf("time of death is %v ago", age)
	}
	k.same("counts restart (DL-38)", []uint32{m.DeliveryCount, m.AcquiredCount}, []uint32{0, 0})
}

// DL-36.
func TestT088(t *testing.T) {
	k := begin(t, "without a dead-letter key the message's own routes")
	x, dead := k.exchange("x", "direct", client.Exchange{}), k.exchange("d", "direct", client.Exchange{})
	q, d := k.queue("q", args{"x-dead-letter-exchange": dead}), k.queue("dq", nil)
	k.bind(x, q, "k")
	k.bind(dead, d, "k")
	_, err := k.try("k", "m", via(x))
	k.must(err)
	k.settle(k.get(q, false), reject)
	m := k.get(d, true)
	k.same("exchange and key", m.Exchange+" "+m.RoutingKey, dead+" k")
}

// DL-36, DL-31, DL-37.
func TestT089(t *testing.T) {
	k := begin(t, "CC and BCC keys route dead letters; BCC stays hidden")
	dead := k.exchange("d", "direct", client.Exchange{})
	q := k.queue("q", args{"x-dead-letter-exchange": dead})
	k2, k3 := k.name("k2"), k.name("k3")
	for i, key := range []string{q, k2, k3} {
		k.bind(dead, k.queue(fmt.Sprint("t", i), nil), key)
	}
	_, err := k.try(q, "m", headers(client.Table{"CC": []any{k2}, "BCC": []any{k3}}))
	k.must(err)
	k.settle(k.get(q, false), reject)
	for i := range 3 {
		m := k.get(k.name(fmt.Sprint("t", i)), true)
		k.same("CC", m.Headers["CC"], []any{k2})
		k.same("keys of the death", m.Deaths[0].RoutingKeys, []string{q, k2})
	}
}

// DL-31, DL-35.
func TestT091(t *testing.T) {
	k := begin(t, "a rejected message keeps its TTL as the original one only")
	d := k.queue("d", nil)
	q := k.queue("q", dlx(d))
	_, err := k.try(q, "m", expires("100000"))
	k.must(err)
	k.settle(k.get(q, false), reject)
	m := k.get(d, true)
	k.same("expiration", m.Expiration, "")
	if m.Deaths[0].Reason != "rejected" || m.Deaths[0].TTL == nil || *m.Deaths[0].TTL != 100*time.Second {
		k.Errorf("death %+v", m.Deaths[0])
	}
}

// DL-30, DL-34, DL-42.
func TestT092(t *testing.T) {
	k := begin(t, "deaths of a message that goes round are counted, the newest first")
	a, b := k.name("a"), k.name("b")
	k.queue("b", dlx(a, args{"x-message-ttl": 50}))
	k.queue("a", dlx(b))
	k.publish(a, "m")
	var first time.Time
	for n := 1; n <= 3; n++ {
		k.settle(k.get(a, false), reject)
		m := k.get(a, false)
		k.same(fmt.Sprint("round ", n), death(&m.Received, 0)+", "+death(&m.Received, 1), fmt.Sprintf("%s expired %d, %s rejected %d", b, n, a, n))
		if n == 1 {
			first = m.Deaths[0].First
		}
		k.same("time of the first", m.Deaths[0].First, first)
		k.settle(m, nackRequeue)
	}
}

// DL-40.
func TestT094(t *testing.T) {
	k := begin(t, "an expired message does not return to its own queue")
	q := k.queue("q", args{"x-message-ttl": 50, "x-dead-letter-exchange": ""})
	k.publish(q, "m")
	k.eventually("it is gone", func() error {
		if n := k.stats(q).Messages; n != 0 {
			return fmt.Errorf("%d messages", n)
		}
		return nil
	})
	k.empty(q)
}

// DL-41.
func TestT095(t *testing.T) {
	k := begin(t, "only the target that makes a circle is left out")
	f := k.exchange("f", "fanout", client.Exchange{})
	q, d := k.queue("q", args{"x-message-ttl": 50, "x-dead-letter-exchange": f}), k.queue("d", nil)
	k.bind(f, q, "")
	k.bind(f, d, "")
	k.publish(q, "m")
	k.same("dead letter", k.bodies(d, 1), []string{"m"})
	k.empty(q)
	k.empty(d)
}

// DL-42.
func TestT098(t *testing.T) {
	k := begin(t, "a rejected message may return to its own queue for ever")
	q := k.queue("q", args{"x-dead-letter-exchange": ""})
	k.publish(q, "m")
	for range 5 {
		k.settle(k.get(q, false), reject)
	}
	m := k.get(q, true)
	k.same("death", death(&m.Received, 0), q+" rejected 5")
}

// DL-10.
func TestT099(t *testing.T) {
	k := begin(t, "at most once: a missing dead-letter exchange loses the message")
	x := k.name("x")
	q, d := k.queue("q", args{"x-dead-letter-exchange": x}), k.queue("d", nil)
	k.publish(q, "lost", "kept")
	k.settle(k.get(q, false), reject)
	k.ready(q, 1)
	k.exchange("x", "fanout", client.Exchange{})
	k.bind(x, d, "")
	k.settle(k.get(q, false), reject)
	k.same("dead letter", k.bodies(d, 1), []string{"kept"})
	k.empty(d)
}

// MSG-6, DL-32.
func TestT100(t *testing.T) {
	k := begin(t, "a client's x-death is its own business")
	d := k.queue("d", nil)
	q := k.queue("q", dlx(d))
	claim := client.Table{"x-death": []any{client.Table{"queue": "zz", "count": int64(7)}}, "x-first-death-reason": "foo"}
	_, err := k.try(q, "m", headers(claim))
	k.must(err)
	m := k.get(q, false)
	k.same("in q", m.Headers["x-first-death-reason"], "foo")
	k.settle(m, reject)
	dead := k.get(d, true)
	k.same("deaths", fmt.Sprint(len(dead.Deaths), death(&dead.Received, 0)), fmt.Sprint(1, q+" rejected 1"))
}

// backlog waits until a queue holds so many dead letters that it could not forward.
func (k *kase) backlog(q string, want uint64) {
	k.Helper()
	k.eventually(fmt.Sprint(want, " in the backlog of ", q), func() error {
		if s := k.stats(q); s.MessagesDLX != want || s.MessagesReady != 0 {
			return fmt.Errorf("backlog %d, ready %d", s.MessagesDLX, s.MessagesReady)
		}
		return nil
	})
}

// DL-21, DL-24.
func TestT102(t *testing.T) {
	k := begin(t, "at least once: what has no route waits for a binding")
	x := k.exchange("x", "fanout", client.Exchange{})
	q, d := k.queue("q", args{"x-dead-letter-exchange": x, "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}), k.queue("d", nil)
	_, err := k.try(q, "m", expires("0"))
	k.must(err)
	k.backlog(q, 1)
	k.same("messages", k.stats(q).Messages, 1)
	k.bind(x, d, "")
	k.same("dead letter", k.bodies(d, 1), []string{"m"})
	k.backlog(q, 0)
}

// DL-26.
func TestT103(t *testing.T) {
	k := begin(t, "at least once: a missing exchange is waited for")
	x := k.name("x")
	q, d := k.queue("q", args{"x-dead-letter-exchange": x, "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}), k.queue("d", nil)
	_, err := k.try(q, "m", expires("0"))
	k.must(err)
	k.backlog(q, 1)
	k.exchange("x", "fanout", client.Exchange{})
	k.bind(x, d, "")
	k.same("dead letter", k.bodies(d, 1), []string{"m"})
	k.backlog(q, 0)
}

// DL-26.
func TestT104(t *testing.T) {
	k := begin(t, "at least once: a deleted target is waited for")
	d := k.queue("d", nil)
	q := k.queue("q", dlx(d, alo()))
	_, err := k.try(q, "1", expires("0"))
	k.must(err)
	k.same("first", k.bodies(d, 1), []string{"1"})
	_, err = k.client.DeleteQueue(k.ctx, client.DeleteQueueRequest{Name: d})
	k.must(err)
	_, err = k.try(q, "2", expires("0"))
	k.must(err)
	k.backlog(q, 1)
	k.queue("d", nil)
	k.same("second", k.bodies(d, 1), []string{"2"})
	k.empty(d)
}

// DL-20.
func TestT108(t *testing.T) {
	k := begin(t, "at least once with drop-head is at most once")
	x := k.exchange("x", "fanout", client.Exchange{})
	q, d := k.queue("q", args{"x-dead-letter-exchange": x, "x-dead-letter-strategy": "at-least-once", "x-overflow": "drop-head"}), k.queue("d", nil)
	k.publish(q, "m")
	k.settle(k.get(q, false), reject)
	k.backlog(q, 0)
	k.bind(x, d, "")
	k.empty(d)
}

// DL-11.
func TestT112(t *testing.T) {
	k := begin(t, "messages of a consumer that ends pass the limit in delivery order")
	d := k.queue("d", nil)
	q := k.queue("q", dlx(d, args{"x-delivery-limit": 0}))
	k.publish(q, numbers(1, 10)...)
	s := k.consume(q, 10)
	k.receive(s, 10)
	s.Close()
	k.ready(d, 10)
	first := k.get(d, true)
	k.same("death", death(&first.Received, 0), q+" delivery_limit 1")
	k.same("order", append([]string{string(first.Body)}, k.bodies(d, 9)...), numbers(1, 10))
}

// DL-39.
func TestT113(t *testing.T) {
	k := begin(t, "dead-lettering leaves the properties alone")
	d := k.queue("d", nil)
	q := k.queue("q", dlx(d, args{"x-message-ttl": 50}))
	in := client.Properties{
		ContentType: "text/x", ContentEncoding: "utf-8", DeliveryMode: 1, Priority: client.Priority(3), CorrelationID: "c",
		ReplyTo: "r", MessageID: "i", Timestamp: time.Unix(1700000000, 0), Type: "t", AppID: "a", Headers: client.Table{"own": "header"},
	}
	_, err := k.try(q, "m", func(m *client.Message) { m.Properties = in })
	k.must(err)
	m := k.get(d, true)
	k.same("priority", *m.Priority, 3)
	k.same("own header", m.Headers["own"], "header")
	m.Priority, in.Priority, m.Headers, in.Headers = nil, nil, nil, nil
	k.same("properties", m.Properties, in)
}

// DL-1.
func TestT116(t *testing.T) {
	k := begin(t, "delete, purge and queue expiry dead-letter nothing")
	d := k.queue("d", nil)
	purged, deleted := k.queue("purged", dlx(d)), k.queue("deleted", dlx(d))
	k.publish(purged, "1", "2")
	k.publish(deleted, "3")
	unused := k.queue("unused", dlx(d, args{"x-expires": 1000}))
	k.publish(unused, "4")
	n, err := k.client.PurgeQueue(k.ctx, "", purged)
	k.must(err)
	k.same("purged", n, 2)
	_, err = k.client.DeleteQueue(k.ctx, client.DeleteQueueRequest{Name: deleted})
	k.must(err)
	k.gone(unused)
	k.empty(d)
}

// DL-11.
func TestT118(t *testing.T) {
	k := begin(t, "dead letters keep the order of rejection")
	d := k.queue("d", nil)
	q := k.queue("q", dlx(d))
	k.publish(q, numbers(1, 5)...)
	got := k.receive(k.consume(q, 5), 5)
	for _, i := range []int{3, 1, 5} {
		k.must(got[i-1].Discard())
	}
	k.same("order", k.bodies(d, 3), []string{"3", "1", "5"})
}
