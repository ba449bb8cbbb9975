package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/tracing"
)

// answering stands for a queue, and answers at once with its error.
type answering struct {
	err    error // to done
	refuse error // returned by Enqueue
	got    []quorumq.NewMessage
	bodies [][]byte
	units  []int // how many parts
}

func (q *answering) Enqueue(_ context.Context, m quorumq.NewMessage, body []byte, done func(error)) error {
	if q.refuse != nil {
		return q.refuse
	}
	q.got, q.bodies = append(q.got, m), append(q.bodies, body)
	done(q.err)
	return nil
}

func (q *answering) EnqueueUnit(ctx context.Context, parts []gateway.Part) error {
	if q.refuse != nil {
		return q.refuse
	}
	for _, p := range parts {
		_ = q.Enqueue(ctx, p.Message, p.Body, p.Done)
	}
	q.units = append(q.units, len(parts))
	return nil
}

// discarding stands for a queue, accepts everything and remembers nothing.
type discarding struct{}

func (discarding) Enqueue(_ context.Context, _ quorumq.NewMessage, _ []byte, done func(error)) error {
	done(nil)
	return nil
}

func (discarding) EnqueueUnit(_ context.Context, parts []gateway.Part) error {
	for _, p := range parts {
		p.Done(nil)
	}
	return nil
}

func testCatalog(t testing.TB, queues ...string) *catalog.Catalog {
	t.Helper()
	c := catalog.New()
	apply := func(cmd catalog.Command) {
		t.Helper()
		if r := c.Apply(c.View().Index()+1, 1, cmd); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	apply(&catalog.RegisterNode{ID: "n", Epoch: 1})
	for _, q := range queues {
		apply(&catalog.DeclareQueue{
			VHost: "/", Name: q, Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"n"}, Leader: "n",
		})
		apply(&catalog.Bind{VHost: "/", Source: "amq.fanout", Destination: q})
	}
	apply(&catalog.DeclareExchange{VHost: "/", Name: "inner", Type: catalog.ExchangeFanout, Durable: true, Internal: true})
	return c
}

// testBroker returns a broker with these queues. What open returns stands for each of them.
func testBroker(t testing.TB, open func(name string) enqueuer, queues ...string) *Broker {
	t.Helper()
	return testBrokerOf(t, Config{MaxBodyBytes: 1000}, open, queues...)
}

func testBrokerOf(t testing.TB, c Config, open func(name string) enqueuer, queues ...string) *Broker {
	t.Helper()
	v := testCatalog(t, queues...).View()
	b := alone(c)
	b.view = func() *catalog.View { return v }
	b.open = func(uid id.QueueUID) (enqueuer, error) {
		q, ok := v.QueueByUID(uid)
		if !ok {
			return nil, traffic.ErrNoSuchQueue
		}
		return open(q.Name), nil
	}
	return b
}

func publish(t *testing.T, b *Broker, p *Publish) Result {
	t.Helper()
	var got []Result
	b.Publish(t.Context(), p, func(r Result) { got = append(got, r) })
	if len(got) != 1 {
		t.Fatalf("%d results", len(got))
	}
	return got[0]
}

// PUB-1: the error names what is wrong with a message, the first fault in the order of the checks.
func TestPublishInvalid(t *testing.T) {
	rows := []struct {
		name string
		p    Publish
		want string
	}{
		{
			"size before exchange",
			Publish{Message: message.Message{Exchange: "nix", Body: make([]byte, 1001)}},
			"PRECONDITION_FAILED: message in vhost \"/\": body size = 1001: above this broker's limit of 1000 bytes",
		},
		{"exchange", Publish{Message: message.Message{Exchange: "nix"}}, `NOT_FOUND: exchange "nix" in vhost "/": does not exist`},
		{"vhost", Publish{VHost: "v", Message: message.Message{Exchange: "nix"}}, `NOT_FOUND: vhost "v": does not exist`},
		{"internal", Publish{Message: message.Message{Exchange: "inner"}}, `ACCESS_REFUSED: exchange "inner" in vhost "/": is internal`},
		{
			"expiration",
			Publish{Message: message.Message{Properties: message.Properties{Expiration: "5ms"}}},
			`PRECONDITION_FAILED: message in vhost "/": expiration = "5ms": want milliseconds`,
		},
		{
			"empty expiration",
			Publish{Message: message.Message{Properties: message.Properties{Has: message.HasExpiration}}},
			`PRECONDITION_FAILED: message in vhost "/": expiration = ""`,
		},
		{
			"CC",
			Publish{Message: message.Message{Headers: message.Table{{Name: "CC", Value: message.String("q")}}}},
			`PRECONDITION_FAILED: message in vhost "/": header CC = "q": want an array of routing keys, have string`,
		},
		{
			"routing key",
			Publish{RoutingKey: strings.Repeat("k", 256)},
			`PRECONDITION_FAILED: message in vhost "/": routing key = "kkk`,
		},
		{
			"property",
			Publish{Message: message.Message{Properties: message.Properties{AppID: strings.Repeat("k", 256)}}},
			`PRECONDITION_FAILED: message in vhost "/": app_id = "kkk`,
		},
	}
	b := testBroker(t, func(string) enqueuer { return discarding{} }, "q")
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if row.p.VHost == "" {
				row.p.VHost = "/"
			}
			r := publish(t, b, &row.p)
			var e *failure.Error
			if r.Kind != Invalid || !errors.As(r.Err, &e) || !strings.HasPrefix(r.Err.Error(), row.want) {
				t.Errorf("result %d, error %v, want %s", r.Kind, r.Err, row.want)
			}
		})
	}
}

// PUB-2, PUB-4 and Q-16: the answers of all queues make one result.
func TestPublishResults(t *testing.T) {
	rows := []struct {
		name    string
		answers []error
		refuse  []error
		want    string
	}{
		{"all took it", []error{nil, nil}, nil, "1: 2 []"},
		{"one is full", []error{nil, fmt.Errorf("%w: x", traffic.ErrRefused)}, nil, "2: 1 [{q1 1 }]"},
		{"one has no leader", []error{traffic.ErrUnavailable, nil}, nil, "2: 1 [{q0 2 }]"},
		{"one is unknown", []error{nil, traffic.ErrUnknownOutcome}, nil, "2: 1 [{q1 3 }]"},
		{"one has no room", []error{nil, nil}, []error{nil, fmt.Errorf("%w: x", disk.ErrNoSpace)}, "2: 1 [{q1 4 cluster: short of disk space: x}]"},
		{"one is deleted", []error{nil, traffic.ErrNoSuchQueue}, nil, "1: 1 []"},
		{"one cannot be handed over", []error{nil, nil}, []error{context.Canceled, nil}, "2: 1 [{q0 2 }]"},
		{"none took it", []error{traffic.ErrRefused, traffic.ErrUnavailable}, nil, "2: 0 [{q0 1 } {q1 2 }]"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			b := testBroker(t, func(name string) enqueuer {
				i := int(name[1] - '0')
				q := &answering{err: row.answers[i]}
				if row.refuse != nil {
					q.refuse = row.refuse[i]
				}
				return q
			}, "q0", "q1")
			for range 3 { // the second and third use what the first has left
				r := publish(t, b, &Publish{VHost: "/", Token: 7, Message: message.Message{Exchange: "amq.fanout"}})
				if got := fmt.Sprintf("%d: %d %v", r.Kind, r.Queues, r.Rejections); got != row.want || r.Token != 7 {
					t.Errorf("result %s with token %d, want %s", got, r.Token, row.want)
				}
			}
		})
	}
}

// PUB-3: unroutable messages are returned only if they are mandatory.
func TestPublishUnroutable(t *testing.T) {
	b := testBroker(t, func(string) enqueuer { return discarding{} })
	if r := publish(t, b, &Publish{VHost: "/", RoutingKey: "nix"}); r.Kind != Confirmed || r.Queues != 0 {
		t.Errorf("result %+v", r)
	}
	if r := publish(t, b, &Publish{VHost: "/", RoutingKey: "nix", Mandatory: true}); r.Kind != Returned {
		t.Errorf("result %+v", r)
	}
	if c := &b.clients.Counters; c.UnroutableDropped.Load() != 1 || c.UnroutableReturned.Load() != 1 {
		t.Errorf("%d dropped, %d returned", c.UnroutableDropped.Load(), c.UnroutableReturned.Load())
	}
}

// What is published to an exchange is counted there, with the queues that it was routed to, be they one or none or many; what
// is refused is not.
func TestPublishedToExchanges(t *testing.T) {
	b := testBroker(t, func(string) enqueuer { return discarding{} }, "q0", "q1")
	ctx := identity.WithIdentity(t.Context(), identity.Itself())
	s, err := b.NewSender(ctx, &SendRights{})
	if err != nil {
		t.Fatal(err)
	}
	for _, sender := range []*Sender{nil, s} {
		for _, p := range []Publish{
			{Message: message.Message{Exchange: "amq.fanout"}},
			{RoutingKey: "q0"},
			{Message: message.Message{Exchange: "amq.fanout"}},
			{RoutingKey: "nix"},
			{Message: message.Message{Exchange: "amq.topic"}},
			{Message: message.Message{Exchange: "nix"}},
			{Message: message.Message{Exchange: "amq.fanout", Body: make([]byte, 1001)}},
		} {
			p.VHost, p.Sender = "/", sender
			publish(t, b, &p)
		}
	}
	got := map[string][2]uint64{}
	for _, f := range b.clients.ExchangeFigures(b.view) {
		got[f.Name] = [2]uint64{f.In, f.Out}
	}
	if want := map[string][2]uint64{"": {4, 2}, "amq.fanout": {4, 8}, "amq.topic": {2, 0}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// EX-16 and PUB-6: a node that cannot route a message knows nothing of what another node has stored for its
// producer.
func TestPublishUnroutedOfProducer(t *testing.T) {
	b := testBroker(t, func(string) enqueuer { return discarding{} })
	for named, want := range map[bool]RejectionCause{false: CauseUnavailable, true: CauseUnknown} {
		var got Result
		p := b.newPublishing()
		p.done = func(r Result) { got = r }
		p.refuse(&failure.Error{Class: failure.Unavailable, Reason: "its view is old"}, named)
		if got.Kind != Rejected || got.NotTaken != named || len(got.Rejections) != 1 || got.Rejections[0].Cause != want || got.Rejections[0].Reason != "its view is old" {
			t.Errorf("named %t: %+v, want cause %d", named, got, want)
		}
	}
}

// PUB-6: a message that was given up while the queue's window was full may have been stored before, if its publisher is
// named; a queue that is gone has nothing.
func TestGivenUpOfProducer(t *testing.T) {
	q := &answering{}
	b := testBroker(t, func(string) enqueuer { return q }, "a")
	for _, row := range []struct {
		named  bool
		refuse error
		kind   ResultKind
		cause  RejectionCause
	}{
		{false, context.Canceled, Rejected, CauseUnavailable},
		{true, context.Canceled, Rejected, CauseUnknown},
		{true, traffic.ErrClosed, Rejected, CauseUnknown},
		{true, traffic.ErrNoSuchQueue, Confirmed, 0},
	} {
		q.refuse = row.refuse
		p := &Publish{VHost: "/", RoutingKey: "a"}
		if row.named {
			p.Producer, p.ProducerSeq = &ProducerID{1}, 7
		}
		r := publish(t, b, p)
		if r.Kind != row.kind || len(r.Rejections) > 0 && r.Rejections[0].Cause != row.cause || len(r.Rejections) == 0 && row.cause != 0 {
			t.Errorf("named %t, %v: %+v, want kind %d and cause %d", row.named, row.refuse, r, row.kind, row.cause)
		}
		if want := row.named && row.kind == Rejected; r.NotTaken != want {
			t.Errorf("named %t, %v: not taken %t, want %t", row.named, row.refuse, r.NotTaken, want)
		}
	}
	if got, want := b.clients.Counters.Refusals.ByCause(), map[string]uint64{"maxlen": 0, "no_space": 0, "unavailable": 1, "unknown": 2}; !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

// What a queue does not take is counted by its cause, once for each queue.
func TestRefusalsByCause(t *testing.T) {
	q := &answering{}
	b := testBroker(t, func(string) enqueuer { return q }, "a", "b")
	for _, err := range []error{traffic.ErrRefused, disk.ErrNoSpace, traffic.ErrUnavailable, traffic.ErrDrainDeleting, traffic.ErrUnknownOutcome, nil} {
		q.err = err
		publish(t, b, &Publish{VHost: "/", Message: message.Message{Exchange: "amq.fanout"}})
	}
	if got, want := b.clients.Counters.Refusals.ByCause(), map[string]uint64{"maxlen": 2, "no_space": 2, "unavailable": 4, "unknown": 2}; !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

// PUB-6: the caller knows that a producer's message was not taken by one of its queues before it can publish the next
// one, although another queue has it and has not answered. That answer, when it comes, is not a second result.
func TestNotTakenAtOnce(t *testing.T) {
	var late func(error)
	waiting := enqueuerFunc(func(done func(error)) error { late = done; return nil })
	full := &answering{refuse: context.Canceled}
	for _, order := range [][]string{{"has it", "full"}, {"full", "has it"}} {
		b := testBroker(t, func(name string) enqueuer {
			if name == "full" {
				return full
			}
			return waiting
		}, order...)
		var got []Result
		p := &Publish{VHost: "/", Producer: &ProducerID{1}, ProducerSeq: 7, Token: 7, Message: message.Message{Exchange: "amq.fanout"}}
		b.Publish(t.Context(), p, func(r Result) { got = append(got, r) })
		if len(got) != 1 || !got[0].NotTaken || got[0].Token != 7 || got[0].Rejections[0].Queue != "full" {
			t.Fatalf("%q: results %+v", order, got)
		}
		late(nil)
		if len(got) != 1 {
			t.Errorf("%q: results %+v", order, got)
		}
		if r := publish(t, b, &Publish{VHost: "/", RoutingKey: "nix"}); r.Kind != Confirmed || r.NotTaken {
			t.Errorf("%q: the next one %+v", order, r)
		}
	}
}

// enqueuerFunc stands for a queue, and does nothing but call the function.
type enqueuerFunc func(done func(error)) error

func (f enqueuerFunc) Enqueue(_ context.Context, _ quorumq.NewMessage, _ []byte, done func(error)) error {
	return f(done)
}

func (f enqueuerFunc) EnqueueUnit(context.Context, []gateway.Part) error { return nil }

// MSG-4, MSG-8, D-5 and PR-1: what is stored, and what the queue gets.
func TestPublishStored(t *testing.T) {
	ends := map[string]*answering{"a": {}, "b": {}, "c": {}}
	b := testBroker(t, func(name string) enqueuer { return ends[name] }, "a", "b", "c")
	p := &Publish{
		VHost: "/", RoutingKey: "a",
		Message: message.Message{
			Body:       []byte("body"),
			Properties: message.Properties{Expiration: "+0060", Priority: 200, ContentType: "text/plain"},
			Headers: message.Table{
				{Name: "CC", Value: message.Array(message.String("b"), message.Int64(1))},
				{Name: "BCC", Value: message.Array(message.String("c"), message.String("a"))},
				{Name: "own", Value: message.Bool(true)},
			},
		},
	}
	given := fmt.Sprint(*p)
	if r := publish(t, b, p); r.Kind != Confirmed || r.Queues != 3 {
		t.Fatalf("result %+v", r)
	}
	if left := fmt.Sprint(*p); left != given {
		t.Errorf("the caller's message is %s afterwards, was %s", left, given)
	}
	for name, q := range ends {
		if len(q.got) != 1 || q.got[0] != (quorumq.NewMessage{Size: 4, TTLMs: 60, Priority: 31}) {
			t.Errorf("queue %s was told %+v", name, q.got)
		}
		m, err := message.Decode(q.bodies[0])
		if err != nil {
			t.Fatal(err)
		}
		if m.Expiration != "60" || m.Priority != 200 || string(m.Body) != "body" || m.ContentType != "text/plain" {
			t.Errorf("stored %+v", m)
		}
		if got := fmt.Sprint(m.RoutingKeys, m.BCCCount, m.Headers); got != `[a b c a] 2 {CC=["b" 1] own=true}` {
			t.Errorf("stored keys and headers %s", got)
		}
	}
	if publish(t, b, &Publish{VHost: "/", RoutingKey: "a"}); ends["a"].got[1].Priority != 4 || ends["a"].got[1].TTLMs != quorumq.Unlimited {
		t.Errorf("a plain message is told as %+v", ends["a"].got[1])
	}
}

// A publish allocates what is stored, and nothing else.
func TestPublishAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("allocations are not those of a normal build")
	}
	b := testBroker(t, func(string) enqueuer { return discarding{} }, "q0", "q1")
	p := &Publish{VHost: "/", RoutingKey: "q", Message: message.Message{Exchange: "amq.fanout", Body: make([]byte, 900)}}
	done := func(Result) {}
	n := testing.AllocsPerRun(1000, func() { b.Publish(context.Background(), p, done) })
	if n > 1 {
		t.Errorf("%v allocations a publish, want 1", n)
	}
}

func BenchmarkPublish(b *testing.B) {
	on, flush := testTracer(b)
	defer flush()
	for _, row := range []struct {
		name    string
		queues  []string
		tracer  *tracing.Tracer
		headers message.Table
	}{
		{"queues=1", []string{"q0"}, nil, nil},
		{"queues=3", []string{"q0", "q1", "q2"}, nil, nil},
		{"queues=1/tracing=on", []string{"q0"}, on, nil},
		{"queues=1/headers", []string{"q0"}, nil, parentHeaders("00")},
		{"queues=1/headers/tracing=on", []string{"q0"}, on, parentHeaders("00")},
		{"queues=1/traced", []string{"q0"}, on, parentHeaders("01")},
	} {
		b.Run(row.name, func(b *testing.B) {
			x := testBrokerOf(b, Config{MaxBodyBytes: 1000, Tracer: row.tracer}, func(string) enqueuer { return discarding{} }, row.queues...)
			p := &Publish{VHost: "/", RoutingKey: "q", Message: message.Message{Exchange: "amq.fanout", Headers: row.headers, Body: make([]byte, 900)}}
			done := func(Result) {}
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				x.Publish(ctx, p, done)
			}
		})
	}
}
