package testcluster_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// refused checks an error's status code and class, and that its text has want.
func refused(t *testing.T, err error, code codes.Code, class, want string) {
	t.Helper()
	st := status.Convert(err)
	reason := ""
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			reason = info.GetReason()
		}
	}
	if st.Code() != code || reason != class || !strings.HasPrefix(st.Message(), class+":") || !strings.Contains(st.Message(), want) {
		t.Errorf("%v (%s), want %v (%s) with %q", err, reason, code, class, want)
	}
}

// Bad input gets a precise error, and what is good continues.
func TestBadInput(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a node")
	}
	c := testcluster.Start(t, 1)
	p := dial(t, c.Addrs()[0])
	p.declare(t, "q", number("x-max-length", 100))
	t.Run("admin", func(t *testing.T) { testBadAdmin(t, p) })
	t.Run("publish stream", func(t *testing.T) { testBadPublishStream(t, p) })
	t.Run("publish", func(t *testing.T) { testBadPublish(t, p) })
	t.Run("consume", func(t *testing.T) { testBadConsume(t, p) })
	t.Run("settle", func(t *testing.T) { testSettleUnknown(t, p) })
	t.Run("drained", func(t *testing.T) { testDrained(t, c, p) })
}

func testBadAdmin(t *testing.T, p peer) {
	ctx := testContext(t)
	declare := func(name string, args ...*brokerv1.Field) func() error {
		return func() error {
			_, err := p.admin.DeclareQueue(ctx, &brokerv1.DeclareQueueRequest{Name: name, Arguments: &brokerv1.Table{Fields: args}})
			return err
		}
	}
	bind := func(source, queue string) func() error {
		return func() error {
			_, err := p.admin.Bind(ctx, &brokerv1.BindRequest{Binding: &brokerv1.Binding{Source: source, Destination: queue}})
			return err
		}
	}
	p.publish(t, "q", 1)
	off := false
	rows := []struct {
		call  func() error
		code  codes.Code
		class string
		want  string
	}{
		{declare("", text("x-queue-type", "quorum")), codes.InvalidArgument, "PRECONDITION_FAILED", "name: is empty"},
		{declare("amq.x"), codes.PermissionDenied, "ACCESS_REFUSED", `"amq.x"`},
		{declare("n", text("x-max-length", "5")), codes.InvalidArgument, "PRECONDITION_FAILED", `x-max-length = "5": want an integer`},
		{
			declare("n", text("x-overflow", "bogus"), number("x-message-ttl", -1)), codes.InvalidArgument, "PRECONDITION_FAILED",
			"x-message-ttl",
		},
		{declare("q", number("x-max-length", 7)), codes.FailedPrecondition, "PRECONDITION_FAILED", "inequivalent"},
		{func() error {
			_, err := p.admin.DeclareQueue(ctx, &brokerv1.DeclareQueueRequest{Name: "n", Durable: &off, Arguments: &brokerv1.Table{
				Fields: []*brokerv1.Field{text("x-queue-type", "quorum")},
			}})
			return err
		}, codes.InvalidArgument, "PRECONDITION_FAILED", "durable"},
		{func() error {
			_, err := p.admin.DeclareQueue(ctx, &brokerv1.DeclareQueueRequest{Name: "n", Passive: true})
			return err
		}, codes.NotFound, "NOT_FOUND", `queue "n" in vhost "/"`},
		{func() error {
			_, err := p.admin.DeclareQueue(ctx, &brokerv1.DeclareQueueRequest{Vhost: "v", Name: "n"})
			return err
		}, codes.NotFound, "NOT_FOUND", `vhost "v"`},
		{func() error {
			_, err := p.admin.DeleteQueue(ctx, &brokerv1.DeleteQueueRequest{Name: "q", IfEmpty: true})
			return err
		}, codes.FailedPrecondition, "PRECONDITION_FAILED", "if_empty = true: holds 1 messages"},
		{func() error {
			_, err := p.admin.GetQueue(ctx, &brokerv1.GetQueueRequest{Name: "nix"})
			return err
		}, codes.NotFound, "NOT_FOUND", `queue "nix"`},
		{func() error {
			_, err := p.admin.PurgeQueue(ctx, &brokerv1.PurgeQueueRequest{Name: "nix"})
			return err
		}, codes.NotFound, "NOT_FOUND", `queue "nix"`},
		{func() error {
			_, err := p.admin.ListQueues(ctx, &brokerv1.ListQueuesRequest{PageToken: "zzz"})
			return err
		}, codes.InvalidArgument, "PRECONDITION_FAILED", "page_token = zzz"},
		{bind("nix", "q"), codes.NotFound, "NOT_FOUND", `exchange "nix"`},
		{bind("amq.fanout", "nix"), codes.NotFound, "NOT_FOUND", `queue "nix"`},
		{bind("", "q"), codes.PermissionDenied, "ACCESS_REFUSED", "default exchange"},
		{func() error {
			_, err := p.admin.DeclareExchange(ctx, &brokerv1.DeclareExchangeRequest{Name: "x", Type: "bogus"})
			return err
		}, codes.InvalidArgument, "PRECONDITION_FAILED", `type = "bogus"`},
		{func() error {
			_, err := p.admin.DeclareExchange(ctx, &brokerv1.DeclareExchangeRequest{Name: "amq.direct", Type: "fanout"})
			return err
		}, codes.FailedPrecondition, "PRECONDITION_FAILED", "inequivalent"},
		{func() error {
			_, err := p.admin.DeclareExchange(ctx, &brokerv1.DeclareExchangeRequest{Name: "nix", Passive: true})
			return err
		}, codes.NotFound, "NOT_FOUND", `exchange "nix"`},
		{func() error {
			_, err := p.admin.DeleteExchange(ctx, &brokerv1.DeleteExchangeRequest{Name: "amq.topic"})
			return err
		}, codes.PermissionDenied, "ACCESS_REFUSED", "pre-declared"},
		{func() error {
			_, err := p.admin.TransferLeadership(ctx, &brokerv1.TransferLeadershipRequest{Queue: "q", Node: "nix"})
			return err
		}, codes.FailedPrecondition, "PRECONDITION_FAILED", "node = nix: is not a member"},
	}
	for _, row := range rows {
		refused(t, row.call(), row.code, row.class, row.want)
	}
	if res, err := p.admin.DeleteQueue(ctx, &brokerv1.DeleteQueueRequest{Name: "nix"}); err != nil {
		t.Error(res, err)
	}
}

// publishRequests sends requests and returns all results and the stream's end.
func publishRequests(t *testing.T, p peer, reqs ...*brokerv1.PublishRequest) ([]*brokerv1.PublishResponse, error) {
	t.Helper()
	stream, err := p.Publish(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reqs {
		if err := stream.Send(r); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	var out []*brokerv1.PublishResponse
	for {
		res, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, res)
	}
}

func testBadPublishStream(t *testing.T, p peer) {
	good := func(seq uint64) *brokerv1.PublishRequest {
		return &brokerv1.PublishRequest{Sequence: seq, Message: &brokerv1.Message{RoutingKey: "q"}}
	}
	producer := func(n int, r *brokerv1.PublishRequest) *brokerv1.PublishRequest {
		r.Producer = make([]byte, n)
		r.Producer[0] = byte(n)
		return r
	}
	with := func(r *brokerv1.PublishRequest, more ...*brokerv1.PublishRequest) *brokerv1.PublishRequest {
		r.More = more
		return r
	}
	large := &brokerv1.PublishRequest{Sequence: 2, Message: &brokerv1.Message{RoutingKey: "q", Body: make([]byte, 70_000)}}
	many := func(n int) (all []*brokerv1.PublishRequest) {
		for i := range n {
			all = append(all, good(uint64(i+2)))
		}
		return all
	}
	rows := []struct {
		reqs    []*brokerv1.PublishRequest
		results int
		want    string
	}{
		{[]*brokerv1.PublishRequest{good(0)}, 0, "sequence = 0: must be above"},
		{[]*brokerv1.PublishRequest{good(5), good(5)}, 1, "sequence = 5: must be above the one before, 5"},
		{[]*brokerv1.PublishRequest{good(5), good(4)}, 1, "sequence = 4"},
		{[]*brokerv1.PublishRequest{producer(3, good(1))}, 0, "producer = 3 bytes: want 16"},
		{[]*brokerv1.PublishRequest{producer(16, good(1)), producer(17, good(2))}, 1, "producer = 17 bytes"},
		{[]*brokerv1.PublishRequest{good(1), producer(16, good(2))}, 1, "belongs in the first request"},
		{[]*brokerv1.PublishRequest{good(1), {Sequence: 2}}, 1, "message: is not set"},
		{[]*brokerv1.PublishRequest{good(1), {Sequence: 2, Message: good(2).GetMessage(), Batches: true}}, 1, "batches = true: belongs in the first request"},
		{[]*brokerv1.PublishRequest{with(good(1), good(2), good(2))}, 2, "sequence = 2: must be above the one before, 2"},
		{[]*brokerv1.PublishRequest{with(good(1), &brokerv1.PublishRequest{Sequence: 2})}, 0, "more: want a sequence and a message in each"},
		{[]*brokerv1.PublishRequest{with(good(1), producer(16, good(2)))}, 0, "more: want a sequence and a message in each"},
		{[]*brokerv1.PublishRequest{with(good(1), with(good(2), good(3)))}, 0, "more: want a sequence and a message in each"},
		{[]*brokerv1.PublishRequest{with(&brokerv1.PublishRequest{}, good(2))}, 0, "message: is not set"},
		{[]*brokerv1.PublishRequest{with(good(1), many(256)...)}, 0, "more = 256 messages: want at most 256 in a request"},
		{[]*brokerv1.PublishRequest{with(good(1), many(1000)...)}, 0, "more = 1000 messages: want at most 256 in a request"},
		{[]*brokerv1.PublishRequest{with(good(1), large)}, 0, "bytes: want at most 65536 bytes in a request of several messages"},
	}
	for _, row := range rows {
		results, err := publishRequests(t, p, row.reqs...)
		refused(t, err, codes.InvalidArgument, "PRECONDITION_FAILED", row.want)
		if len(results) != row.results {
			t.Errorf("%s: %d results of what was good, want %d", row.want, len(results), row.results)
		}
	}
	results, err := publishRequests(t, p, producer(16, &brokerv1.PublishRequest{}), good(3), good(9))
	if err != nil || len(results) != 2 {
		t.Errorf("a stream with an opening and a gap: %v, %v", results, err)
	}
}

// A bad message is that message's result; the stream continues.
func testBadPublish(t *testing.T, p peer) {
	ttl := "5ms"
	bad := []struct {
		m     *brokerv1.Message
		class string
		want  string
	}{
		{&brokerv1.Message{RoutingKey: "q", Body: make([]byte, 16<<20+1)}, "PRECONDITION_FAILED", "body size = 16777217"},
		{&brokerv1.Message{Exchange: "nix"}, "NOT_FOUND", `exchange "nix"`},
		{&brokerv1.Message{RoutingKey: "q", Properties: &brokerv1.Properties{Expiration: &ttl}}, "PRECONDITION_FAILED", `expiration = "5ms"`},
	}
	var reqs []*brokerv1.PublishRequest
	for i, row := range bad {
		reqs = append(reqs, &brokerv1.PublishRequest{Sequence: uint64(i + 1), Message: row.m})
	}
	last := uint64(len(bad) + 1)
	reqs = append(reqs, &brokerv1.PublishRequest{Sequence: last, Message: &brokerv1.Message{RoutingKey: "q"}},
		&brokerv1.PublishRequest{Sequence: last + 1, Message: &brokerv1.Message{RoutingKey: "nix", Mandatory: true}})
	results, err := publishRequests(t, p, reqs...)
	if err != nil || len(results) != len(reqs) {
		t.Fatal(results, err)
	}
	for _, r := range results {
		got := r.GetResult()
		switch n := r.GetSequence(); {
		case n == last:
			if got.GetResult() != brokerv1.PublishResult_RESULT_CONFIRMED || got.GetQueues() != 1 {
				t.Errorf("the good message: %v", got)
			}
		case n > last:
			if got.GetResult() != brokerv1.PublishResult_RESULT_RETURNED {
				t.Errorf("the unroutable message: %v", got)
			}
		default:
			row := bad[n-1]
			if got.GetResult() != brokerv1.PublishResult_RESULT_INVALID || got.GetError().GetClass() != row.class ||
				!strings.Contains(got.GetError().GetText(), row.want) {
				t.Errorf("message %d: %v, want %s", n, got, row.want)
			}
		}
	}
	_, err = p.PublishOne(testContext(t), &brokerv1.PublishOneRequest{Message: bad[1].m})
	refused(t, err, codes.NotFound, "NOT_FOUND", `exchange "nix"`)
}

// consumeRequests sends requests and returns the stream's end.
func consumeRequests(t *testing.T, p peer, reqs ...*brokerv1.ConsumeRequest) error {
	t.Helper()
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	stream, err := p.Consume(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reqs {
		if err := stream.Send(r); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	if len(reqs) == 0 {
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
	}
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
}

func open(o *brokerv1.ConsumeOpen) *brokerv1.ConsumeRequest {
	return &brokerv1.ConsumeRequest{Kind: &brokerv1.ConsumeRequest_Open{Open: o}}
}

func settlement(s *brokerv1.Settlement) *brokerv1.ConsumeRequest {
	return &brokerv1.ConsumeRequest{Kind: &brokerv1.ConsumeRequest_Settlement{Settlement: s}}
}

func testBadConsume(t *testing.T, p peer) {
	q := open(&brokerv1.ConsumeOpen{Queue: "q"})
	credit := &brokerv1.ConsumeRequest{Kind: &brokerv1.ConsumeRequest_Credit{Credit: &brokerv1.ConsumeCredit{Add: 1}}}
	ack := brokerv1.Outcome_OUTCOME_ACK
	many := &brokerv1.Settlement{Outcome: ack, DeliveryIds: make([]uint64, 10_001)}
	own := &brokerv1.Settlement{Outcome: brokerv1.Outcome_OUTCOME_REQUEUE, Annotations: &brokerv1.Table{Fields: []*brokerv1.Field{text("own", "v")}}}
	bad, state := codes.InvalidArgument, codes.FailedPrecondition
	for _, row := range []struct {
		code  codes.Code
		class string
		want  string
		reqs  []*brokerv1.ConsumeRequest
	}{
		{bad, "PRECONDITION_FAILED", "the stream ended before its first request", nil},
		{bad, "PRECONDITION_FAILED", "the first request must open", []*brokerv1.ConsumeRequest{credit}},
		{bad, "PRECONDITION_FAILED", "the stream already has a consumer", []*brokerv1.ConsumeRequest{q, q}},
		{bad, "PRECONDITION_FAILED", "the request is empty", []*brokerv1.ConsumeRequest{q, {}}},
		{state, "PRECONDITION_FAILED", "without explicit credit", []*brokerv1.ConsumeRequest{q, credit}},
		{bad, "PRECONDITION_FAILED", "outcome: not set", []*brokerv1.ConsumeRequest{q, settlement(&brokerv1.Settlement{UpTo: 1})}},
		{bad, "PRECONDITION_FAILED", "more than 10000", []*brokerv1.ConsumeRequest{q, settlement(many)}},
		{bad, "PRECONDITION_FAILED", `names must start with "x-"`, []*brokerv1.ConsumeRequest{q, settlement(own)}},
		{codes.NotFound, "NOT_FOUND", `queue "nix"`, []*brokerv1.ConsumeRequest{open(&brokerv1.ConsumeOpen{Queue: "nix"})}},
	} {
		refused(t, consumeRequests(t, p, row.reqs...), row.code, row.class, row.want)
	}
}

// DEL-6: ids that are not the consumer's to settle are named; the others are settled.
func testSettleUnknown(t *testing.T, p peer) {
	p.declare(t, "settle")
	p.publish(t, "settle", 3)
	stream, err := p.Consume(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	send := func(r *brokerv1.ConsumeRequest) {
		t.Helper()
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
	}
	recv := func() *brokerv1.ConsumeResponse {
		t.Helper()
		res, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	send(open(&brokerv1.ConsumeOpen{Queue: "settle", Exclusive: true, Tag: "mine"}))
	if tag := recv().GetOpened().GetTag(); tag != "mine" {
		t.Errorf("the tag is %q", tag)
	}
	refused(t, consumeRequests(t, p, open(&brokerv1.ConsumeOpen{Queue: "settle"})), codes.PermissionDenied, "ACCESS_REFUSED", "exclusive") // CO-2
	for n := 0; n < 3; {
		n += len(recv().GetDeliveries().GetDeliveries())
	}
	ack := brokerv1.Outcome_OUTCOME_ACK
	send(settlement(&brokerv1.Settlement{DeliveryIds: []uint64{2, 2, 9, 1}, Outcome: ack, Request: 7}))
	if s := recv().GetSettled(); s.GetRequest() != 7 || len(s.GetUnknown()) != 2 || s.GetUnknown()[0] != 2 || s.GetUnknown()[1] != 9 {
		t.Errorf("settled %v", s)
	}
	send(settlement(&brokerv1.Settlement{UpTo: 3, Outcome: ack, Request: 8}))
	if s := recv().GetSettled(); s.GetRequest() != 8 || len(s.GetUnknown()) != 0 {
		t.Errorf("settled %v", s)
	}
	if m := p.stats(t, "settle").GetStats().GetMessages(); m != 0 {
		t.Errorf("%d messages left", m)
	}
	send(&brokerv1.ConsumeRequest{Kind: &brokerv1.ConsumeRequest_Cancel{Cancel: &brokerv1.ConsumeCancel{}}})
	if c := recv().GetCancelled(); c.GetCause() != "client" {
		t.Errorf("cancelled %v", c)
	}
}

// A drained node sends clients to others.
func testDrained(t *testing.T, c *testcluster.Cluster, p peer) {
	ctx, cancel := context.WithCancel(testContext(t))
	cancel() // alone in its cluster it has nowhere to move leadership to
	if _, err := c.Broker(0).Operators.Drain(identity.WithIdentity(ctx, identity.Itself()), ""); err == nil {
		t.Log("drained at once")
	}
	_, err := publishRequests(t, p)
	refused(t, err, codes.Unavailable, "UNAVAILABLE", "drained")
	refused(t, consumeRequests(t, p, open(&brokerv1.ConsumeOpen{Queue: "q"})), codes.Unavailable, "UNAVAILABLE", "drained")
}
