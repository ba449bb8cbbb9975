package testcluster_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

func field(name string, v *brokerv1.Value) *brokerv1.Field {
	return &brokerv1.Field{Name: name, Value: v}
}

func table(fields ...*brokerv1.Field) *brokerv1.Table { return &brokerv1.Table{Fields: fields} }

func boolean(name string) *brokerv1.Field {
	return field(name, &brokerv1.Value{Kind: &brokerv1.Value_Boolean{Boolean: true}})
}

// nested is a table so many levels deep.
func nested(levels int) *brokerv1.Table {
	t := table(number("n", 1))
	for range levels {
		t = table(field("t", &brokerv1.Value{Kind: &brokerv1.Value_Table{Table: t}}))
	}
	return t
}

// badArguments has every argument of the table of arguments with values of another type and
// out of range.
func badArguments() map[string][]*brokerv1.Field {
	bad := map[string][]*brokerv1.Field{}
	add := func(fields ...*brokerv1.Field) {
		for _, f := range fields {
			bad[f.GetName()] = append(bad[f.GetName()], f)
		}
	}
	const tooLong = 315_360_000_001 // ten years
	for name, low := range map[string]int64{
		"x-max-length": 0, "x-max-length-bytes": 0, "x-message-ttl": 0, "x-expires": 1, "x-delayed-retry-min": 1,
		"x-delayed-retry-max": 1, "x-consumer-timeout": 0, "x-consumer-disconnected-timeout": 0,
		"x-quorum-initial-group-size": 1, "x-quorum-target-group-size": 1, "x-max-in-memory-length": 0, "x-max-in-memory-bytes": 0,
	} {
		add(number(name, low-1), number(name, math.MinInt64), text(name, "5"), boolean(name), field(name, &brokerv1.Value{}))
	}
	add(number("x-message-ttl", tooLong), number("x-expires", tooLong))
	add(text("x-delivery-limit", "abc"), text("x-delivery-limit", "2"), boolean("x-delivery-limit"))
	for _, name := range []string{
		"x-queue-type", "x-overflow", "x-dead-letter-strategy", "x-delayed-retry-type", "x-queue-leader-locator",
	} {
		add(text(name, "bogus"), text(name, ""), number(name, 1), boolean(name))
	}
	add(number("x-dead-letter-exchange", 5), text("x-dead-letter-exchange", strings.Repeat("x", 256)), boolean("x-dead-letter-exchange"))
	add(text("x-dead-letter-routing-key", "needs an exchange"), number("x-dead-letter-routing-key", 5))
	for _, name := range []string{"x-single-active-consumer", "x-expires-if-empty"} {
		add(text(name, "true"), number(name, 1))
	}
	add(number("x-max-priority", 5), number("x-max-priority", -1), number("x-max-priority", 256), text("x-max-priority", "5"))
	for _, name := range []string{"x-queue-mode", "x-queue-version", "x-max-age", "x-initial-cluster-size", "x-stream-offset"} {
		add(text(name, "lazy"), number(name, 2))
	}
	return bad
}

// C-3, C-4: what is wrong in a declaration, a binding or a message is named, and
// nothing of it is stored.
func TestBadDeclarations(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a node")
	}
	c := testcluster.Start(t, 1)
	p := dial(t, c.Addrs()[0])
	ctx := testContext(t)
	p.declare(t, "q")
	if _, err := p.admin.DeclareExchange(ctx, &brokerv1.DeclareExchangeRequest{Name: "h", Type: "headers"}); err != nil {
		t.Fatal(err)
	}
	before := stored(c)
	t.Run("arguments", func(t *testing.T) {
		for name, fields := range badArguments() {
			for _, f := range fields {
				_, err := p.admin.DeclareQueue(ctx, &brokerv1.DeclareQueueRequest{Name: "bad", Arguments: table(f)})
				refused(t, err, codes.InvalidArgument, "PRECONDITION_FAILED", name)
			}
		}
		for _, f := range []*brokerv1.Field{number("x-max-priority", 256), number("x-max-priority", -1), text("x-max-priority", "5")} {
			_, err := p.admin.DeclareQueue(ctx, &brokerv1.DeclareQueueRequest{Name: "bad", Arguments: table(text("x-queue-type", "classic"), f)})
			refused(t, err, codes.InvalidArgument, "PRECONDITION_FAILED", "x-max-priority")
		}
	})
	t.Run("names", func(t *testing.T) { testBadNames(ctx, t, p) })
	t.Run("tables", func(t *testing.T) { testBadTables(ctx, t, p) })
	if after := stored(c); after != before {
		t.Errorf("there was\n%s\nthere is\n%s", before, after)
	}
	// What only looks bad is a name like any other; line ends are taken out of it.
	for given, want := range map[string]string{"../../etc": "../../etc", "a\r\nb": "ab", strings.Repeat("n", 255): strings.Repeat("n", 255)} {
		r, err := p.admin.DeclareQueue(ctx, &brokerv1.DeclareQueueRequest{Name: given})
		if err != nil || r.GetName() != want {
			t.Errorf("%.20q: %v, %v", given, r.GetName(), err)
		}
		if _, err := p.admin.DeleteQueue(ctx, &brokerv1.DeleteQueueRequest{Name: given}); err != nil {
			t.Error(err)
		}
	}
	if after := stored(c); after != before {
		t.Errorf("there was\n%s\nthere is\n%s", before, after)
	}
}

func testBadNames(ctx context.Context, t *testing.T, p peer) {
	long := strings.Repeat("n", 256)
	for name, want := range map[string]string{long: "256 bytes", "a\x00b": "NUL"} {
		_, err := p.admin.DeclareQueue(ctx, &brokerv1.DeclareQueueRequest{Name: name})
		refused(t, err, codes.InvalidArgument, "PRECONDITION_FAILED", want)
		_, err = p.admin.DeclareExchange(ctx, &brokerv1.DeclareExchangeRequest{Name: name, Type: "topic"})
		refused(t, err, codes.InvalidArgument, "PRECONDITION_FAILED", want)
		_, err = p.admin.Bind(ctx, &brokerv1.BindRequest{Binding: &brokerv1.Binding{Source: "amq.topic", Destination: "q", RoutingKey: name}})
		refused(t, err, codes.InvalidArgument, "PRECONDITION_FAILED", want)
		_, err = p.admin.Bind(ctx, &brokerv1.BindRequest{Binding: &brokerv1.Binding{Source: "amq.topic", Destination: name}})
		refused(t, err, codes.NotFound, "NOT_FOUND", "queue")
	}
	_, err := p.PublishOne(ctx, &brokerv1.PublishOneRequest{Message: &brokerv1.Message{RoutingKey: long}})
	refused(t, err, codes.InvalidArgument, "PRECONDITION_FAILED", "255")
}

func testBadTables(ctx context.Context, t *testing.T, p peer) {
	for what, bad := range map[string]*brokerv1.Table{
		"deep": nested(100), "large": table(text("x", strings.Repeat("v", 1<<20))),
	} {
		_, err := p.admin.DeclareQueue(ctx, &brokerv1.DeclareQueueRequest{Name: "bad", Arguments: bad})
		refused(t, err, codes.InvalidArgument, "PRECONDITION_FAILED", "arguments")
		_, err = p.admin.DeclareExchange(ctx, &brokerv1.DeclareExchangeRequest{Name: "bad", Type: "topic", Arguments: bad})
		refused(t, err, codes.InvalidArgument, "PRECONDITION_FAILED", "arguments")
		_, err = p.admin.Bind(ctx, &brokerv1.BindRequest{Binding: &brokerv1.Binding{Source: "h", Destination: "q", Arguments: bad}})
		refused(t, err, codes.InvalidArgument, "PRECONDITION_FAILED", "arguments")
		_, err = p.PublishOne(ctx, &brokerv1.PublishOneRequest{
			Message: &brokerv1.Message{RoutingKey: "q", Properties: &brokerv1.Properties{Headers: bad}},
		})
		refused(t, err, codes.InvalidArgument, "PRECONDITION_FAILED", "headers")
		if n := p.stats(t, "q").GetStats().GetMessages(); n != 0 {
			t.Errorf("%s: %d messages are stored", what, n)
		}
	}
	for _, match := range []*brokerv1.Field{text("x-match", "bogus"), number("x-match", 1)} {
		_, err := p.admin.Bind(ctx, &brokerv1.BindRequest{Binding: &brokerv1.Binding{Source: "h", Destination: "q", Arguments: table(match)}})
		refused(t, err, codes.InvalidArgument, "PRECONDITION_FAILED", "x-match")
	}
}
