package deadletter

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// put publishes a message into a queue.
func (w *world) put(uid id.QueueUID, m *message.Message) {
	w.t.Helper()
	cmd := &quorumq.Enqueue{
		Enqueuer: quorumq.EnqueuerKey{Node: "n", Epoch: 1}, First: w.nextSeq(uid),
		Messages: []quorumq.NewMessage{{Size: uint32(len(m.Body)), TTLMs: quorumq.Unlimited, Priority: quorumq.DefaultPriority}},
	}
	if r, err := w.apply(uid, cmd, [][]byte{message.Append(nil, m)}); err != nil || r.Stored != 1 {
		w.t.Fatal(r, err)
	}
}

// move moves all ready messages of a queue, and reports how many.
func (w *world) move(uid id.QueueUID, to quorumq.Destination) uint64 {
	w.t.Helper()
	w.mu.Lock()
	page, _, _ := w.machines[uid].q.Peek(nil, quorumq.PeekFrom{}, 1000)
	w.mu.Unlock()
	cmd := &quorumq.Move{To: to}
	for i := range page {
		cmd.Places = append(cmd.Places, page[i].Place)
	}
	r, err := w.apply(uid, cmd, nil)
	if err != nil || r.Code != quorumq.CodeOK {
		w.t.Fatal(r, err)
	}
	return r.Count
}

// died is a message "m" with the deaths of these queues, the first one first.
func died(queues ...string) *message.Message {
	m := &message.Message{Exchange: "orders", RoutingKeys: []string{"new", "cc"}, Body: []byte("m")}
	for _, q := range queues {
		out := Rewrite(m, Discard{Queue: q, Reason: quorumq.ReasonRejected, NowMs: 1, Exchange: "dlx", RoutingKey: "dead", HasRoutingKey: true})
		m = &out
	}
	return m
}

// G-13: where each kind of move leads, and what the message is there.
func TestForwarderMoves(t *testing.T) {
	rows := []struct {
		name  string
		to    quorumq.Destination
		m     *message.Message
		cause Cause // why it waits first
		mend  func(w *world)
		want  string // exchange, keys, deaths, expiration
	}{
		{"to a queue", quorumq.Destination{Kind: quorumq.ToQueue, Name: "target"}, died("a"), CauseNone, nil, "dlx [dead] 1 "},
		{
			"to a queue that comes later",
			quorumq.Destination{Kind: quorumq.ToQueue, Name: "later"},
			&message.Message{Exchange: "e", RoutingKeys: []string{"k"}, Body: []byte("m"), Properties: message.Properties{Expiration: "3600000"}},
			CauseNoQueue, func(w *world) { w.declare("later", nil) }, "e [k] 0 3600000",
		},
		{
			"through an exchange with a key",
			quorumq.Destination{Kind: quorumq.ToExchange, Name: "", Key: "target", HasKey: true},
			died(), CauseNone, nil, " [target] 0 ",
		},
		{
			"through an exchange with its own keys",
			quorumq.Destination{Kind: quorumq.ToExchange, Name: "dlx"},
			died(), CauseNoExchange,
			func(w *world) { w.exchange(catalog.ExchangeDirect); w.bind("target", "cc") }, "dlx [new cc] 0 ",
		},
		{
			"through an exchange that routes nowhere yet",
			quorumq.Destination{Kind: quorumq.ToExchange, Name: "amq.direct"},
			died(), CauseUnroutable,
			func(w *world) {
				w.propose(&catalog.Bind{VHost: "/", Source: "amq.direct", Destination: "target", Key: "new"})
			}, "amq.direct [new cc] 0 ",
		},
		{"to where it died first", quorumq.Destination{Kind: quorumq.ToOrigin}, died("target", "b", "c"), CauseNone, nil, "orders [new cc] 3 "},
		{
			"to the exchange that it came from",
			quorumq.Destination{Kind: quorumq.ToOriginExchange},
			died("a", "b"), CauseNoExchange,
			func(w *world) {
				w.propose(&catalog.DeclareExchange{VHost: "/", Name: "orders", Type: catalog.ExchangeFanout, Durable: true})
				w.propose(&catalog.Bind{VHost: "/", Source: "orders", Destination: "target"})
			}, "orders [new cc] 2 ",
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				w.moves = true
				source, target := w.declare("source", nil), w.declare("target", nil) // without dead-lettering
				w.put(source, row.m)
				w.move(source, row.to)
				f, s := w.start(source, Config{})
				defer func() { s.end(); f.Close(); f.Wait() }()
				time.Sleep(time.Minute)
				if row.cause != CauseNone {
					if got := f.Stats(); got.Waiting[row.cause] != 1 || w.backlog(source) != 1 {
						t.Fatalf("it waits for %v: %s", got.Waiting, got.LastError)
					}
					row.mend(w)
					time.Sleep(DefaultMaxBackoff)
					synctest.Wait()
				}
				if q, ok := w.View().Queue("/", row.to.Name); ok {
					target = q.UID
				}
				got := w.take(target, 9)
				if len(got) != 1 || w.backlog(source) != 0 {
					t.Fatalf("%d messages have arrived, %d wait: %s", len(got), w.backlog(source), f.Stats().LastError)
				}
				m := got[0]
				if s := fmt.Sprint(m.Exchange, " ", m.RoutingKeys, " ", len(m.Deaths), " ", m.Expiration); s != row.want || string(m.Body) != "m" {
					t.Errorf("it arrived as %q, want %q", s, row.want)
				}
			})
		})
	}
}

// G-13, DL-25: with lost commands and answers, late ones of leaders of the past, and changes
// of leader, each moved message arrives once, also when the move is repeated.
func TestForwarderMovesOnce(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const messages = 300
				w := newWorld(t, seed)
				w.moves = true
				source, target := w.declare("source", nil), w.declare("target", nil)
				w.faulty = 0.2
				f, s := w.start(source, Config{Prefetch: 1 + int(seed)*7})
				old := []*Forwarder{f}
				got := make(map[string]int)
				moved := uint64(0)
				for n := 0; n < messages || w.backlog(source) > 0; n++ {
					if n > 100_000 {
						t.Fatalf("%d messages are stuck: %+v", w.backlog(source), f.Stats())
					}
					if n < messages {
						w.put(source, &message.Message{RoutingKeys: []string{"k"}, Body: []byte(fmt.Sprint("m", n))})
					}
					if n%10 == 0 || n == messages-1 {
						moved += w.move(source, quorumq.Destination{Kind: quorumq.ToQueue, Name: "target"})
						f.Wake()
					}
					if w.draw(40) == 0 { // the leader is lost; it may not know yet
						if w.draw(2) == 0 {
							s.end()
						}
						f.Close()
						f, s = w.start(source, Config{})
						old = append(old, f)
					}
					time.Sleep(10 * time.Millisecond)
				}
				for _, f := range old {
					f.Close()
					f.Wait()
				}
				time.Sleep(time.Second)
				for _, m := range w.take(target, 2*messages) {
					got[string(m.Body)]++
				}
				if moved != messages || len(got) != messages {
					t.Errorf("%d were moved, %d have arrived, there were %d", moved, len(got), messages)
				}
				for body, k := range got {
					if k != 1 || !strings.HasPrefix(body, "m") {
						t.Errorf("message %s has arrived %d times", body, k)
					}
				}
			})
		})
	}
}

// G-22: with lost commands and answers, repeats, and changes of leader, each message that a
// consumer settles together with two outputs has each of them arrive once, in order.
func TestForwarderPublishesOnce(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const messages = 200
				w := newWorld(t, seed)
				w.moves = true
				w.exchange(catalog.ExchangeDirect)
				source, left, right := w.declare("source", nil), w.declare("left", nil), w.declare("right", nil)
				w.bind("left", "l")
				w.bind("right", "r")
				w.faulty = 0.2
				f, s := w.start(source, Config{Prefetch: 1 + int(seed)*5})
				old := []*Forwarder{f}
				for n := 0; n < messages || w.backlog(source) > 0; n++ {
					if n > 100_000 {
						t.Fatalf("%d messages are stuck: %+v", w.backlog(source), f.Stats())
					}
					if n < messages {
						w.put(source, &message.Message{RoutingKeys: []string{"k"}, Body: []byte("in")})
						w.transact(source, n)
						f.Wake()
					}
					if w.draw(30) == 0 { // the leader is lost; it may not know yet
						if w.draw(2) == 0 {
							s.end()
						}
						f.Close()
						f, s = w.start(source, Config{})
						old = append(old, f)
					}
					time.Sleep(10 * time.Millisecond)
				}
				for _, f := range old {
					f.Close()
					f.Wait()
				}
				time.Sleep(time.Second)
				for uid, prefix := range map[id.QueueUID]string{left: "l", right: "r"} {
					got := make(map[string]int)
					for _, m := range w.take(uid, 2*messages) {
						got[string(m.Body)]++
						if len(m.Deaths) > 0 || m.Exchange != "dlx" {
							t.Errorf("%s has arrived as %+v", m.Body, m)
						}
					}
					for n := range messages {
						if k := got[fmt.Sprint(prefix, n)]; k != 1 {
							t.Errorf("output %s%d has arrived %d times", prefix, n, k)
						}
					}
					if len(got) != messages {
						t.Errorf("%d outputs %s have arrived", len(got), prefix)
					}
				}
				if inputs := w.take(source, 1); len(inputs) > 0 {
					t.Errorf("input %s is left", inputs[0].Body)
				}
			})
		})
	}
}

// transact takes a message and settles it for two outputs, by a command that may be repeated:
// only one try counts.
func (w *world) transact(source id.QueueUID, n int) {
	w.t.Helper()
	r, err := w.apply(source, &quorumq.Get{Session: quorumq.SessionKey{Node: "n", Epoch: 1, Session: 7}}, nil)
	if err != nil || r.Delivery == nil {
		w.t.Fatal(r, err)
	}
	cmd := &quorumq.Transact{Consumer: r.Delivery.Consumer, Ranges: []quorumq.MsgIDRange{{First: r.Delivery.MsgID, Last: r.Delivery.MsgID}}}
	var bodies [][]byte
	for _, key := range []string{"l", "r"} {
		m := message.Message{Exchange: "dlx", RoutingKeys: []string{key}, Body: []byte(fmt.Sprint(key, n))}
		cmd.Outputs = append(cmd.Outputs, quorumq.Output{Exchange: "dlx", Size: uint32(len(m.Body))})
		bodies = append(bodies, message.Append(nil, &m))
	}
	for try := range 1 + w.draw(3) {
		r, err := w.apply(source, cmd, bodies)
		want := quorumq.CodeOK
		if try > 0 {
			want = quorumq.CodeNotHeld
		}
		if err != nil || r.Code != want {
			w.t.Fatalf("try %d: %+v, %v", try, r, err)
		}
	}
}
