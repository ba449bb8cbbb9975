package grpcapi

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/internal/testnode"
	"github.com/quorate/quorate/message"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// brokerOf returns the broker of a node.
func brokerOf(t *testing.T, part *cluster.Cluster, authenticates bool) *broker.Broker {
	t.Helper()
	b := broker.New(part, broker.Config{Authenticate: authenticates})
	t.Cleanup(b.Close)
	return b
}

// servingBroker returns the broker of a node that serves clients that log in.
func servingBroker(t *testing.T) *broker.Broker {
	t.Helper()
	b := brokerOf(t, testnode.Start(t), true)
	if err := b.Serving.AwaitServing(testContext(t)); err != nil {
		t.Fatal(err)
	}
	return b
}

// serve starts a server on loopback, of a node that serves nobody.
func serve(t *testing.T, edit func(*Config)) *grpc.ClientConn {
	t.Helper()
	return serveWith(t, edit, func(*Server) {})
}

// serveWith is like serve, and change edits the server before it listens.
func serveWith(t *testing.T, edit func(*Config), change func(*Server)) *grpc.ClientConn {
	t.Helper()
	c := Config{Reflection: true}
	if edit != nil {
		edit(&c)
	}
	if c.Broker == nil {
		c.Broker = brokerOf(t, testnode.Waiting(t), false)
	}
	s := New(c)
	change(s)
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	cc, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cc.Close(); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return cc
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// A starting node answers every call with UNAVAILABLE and the advice to retry.
func TestStarting(t *testing.T) {
	cc := serve(t, nil)
	ctx := testContext(t)
	b, a := brokerv1.NewBrokerClient(cc), brokerv1.NewAdminClient(cc)
	calls := map[string]func() error{
		"publish": func() error {
			s, err := b.Publish(ctx)
			if err == nil {
				_, err = s.Recv()
			}
			return err
		},
		"publish one": func() error {
			_, err := b.PublishOne(ctx, &brokerv1.PublishOneRequest{Message: &brokerv1.Message{RoutingKey: "q"}})
			return err
		},
		"consume": func() error {
			s, err := b.Consume(ctx)
			if err == nil {
				_, err = s.Recv()
			}
			return err
		},
		"get":     func() error { _, err := b.Get(ctx, &brokerv1.GetRequest{Queue: "q"}); return err },
		"declare": func() error { _, err := a.DeclareQueue(ctx, &brokerv1.DeclareQueueRequest{Name: "q"}); return err },
		"delete":  func() error { _, err := a.DeleteQueue(ctx, &brokerv1.DeleteQueueRequest{Name: "q"}); return err },
		"list":    func() error { _, err := a.ListQueues(ctx, &brokerv1.ListQueuesRequest{}); return err },
		"exchange": func() error {
			_, err := a.DeclareExchange(ctx, &brokerv1.DeclareExchangeRequest{Name: "x"})
			return err
		},
		"bind":      func() error { _, err := a.Bind(ctx, &brokerv1.BindRequest{Binding: &brokerv1.Binding{}}); return err },
		"drain":     func() error { _, err := a.Drain(ctx, &brokerv1.DrainRequest{}); return err },
		"undrain":   func() error { _, err := a.Undrain(ctx, &brokerv1.UndrainRequest{}); return err },
		"grow":      func() error { _, err := a.GrowQueues(ctx, &brokerv1.GrowQueuesRequest{}); return err },
		"shrink":    func() error { _, err := a.ShrinkNode(ctx, &brokerv1.ShrinkNodeRequest{}); return err },
		"rebalance": func() error { _, err := a.RebalanceQueues(ctx, &brokerv1.RebalanceQueuesRequest{}); return err },
		"leaders":   func() error { _, err := a.RebalanceLeaders(ctx, &brokerv1.RebalanceLeadersRequest{}); return err },
		"plan":      func() error { _, err := a.PlanRebalance(ctx, &brokerv1.PlanRebalanceRequest{}); return err },
		"finalize":  func() error { _, err := a.FinalizeVersion(ctx, &brokerv1.FinalizeVersionRequest{}); return err },
		"forget":    func() error { _, err := a.ForgetNode(ctx, &brokerv1.ForgetNodeRequest{}); return err },
	}
	for name, call := range calls {
		st := status.Convert(call())
		info, retry := details(st)
		if st.Code() != codes.Unavailable || info.GetReason() != "UNAVAILABLE" || info.GetDomain() != "broker" || retry.GetRetryDelay() == nil {
			t.Errorf("%s: %v with %v, %v", name, st, info, retry)
		}
	}
}

func details(st *status.Status) (info *errdetails.ErrorInfo, retry *errdetails.RetryInfo) {
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.RetryInfo:
			retry = d
		}
	}
	return info, retry
}

// An error names what is wrong in a request by itself.
func TestBadRequests(t *testing.T) {
	cc := serveWith(t, nil, func(s *Server) { s.serves = func() error { return nil } })
	ctx := testContext(t)
	b, a := brokerv1.NewBrokerClient(cc), brokerv1.NewAdminClient(cc)
	bad := &brokerv1.Table{Fields: []*brokerv1.Field{{Name: "f"}}}
	twice := toTable(message.Table{{Name: "x-a", Value: message.Int32(1)}, {Name: "x-b"}, {Name: "x-a", Value: message.Int64(1)}})
	mode, priority := uint32(3), uint32(256)
	one := func(p *brokerv1.Properties) func() error {
		return func() error {
			_, err := b.PublishOne(ctx, &brokerv1.PublishOneRequest{Message: &brokerv1.Message{Properties: p}})
			return err
		}
	}
	for name, row := range map[string]struct {
		call func() error
		arg  string
	}{
		"no message":    {func() error { _, err := b.PublishOne(ctx, &brokerv1.PublishOneRequest{}); return err }, "message"},
		"delivery mode": {one(&brokerv1.Properties{DeliveryMode: &mode}), "delivery_mode"},
		"priority":      {one(&brokerv1.Properties{Priority: &priority}), "priority"},
		"headers":       {one(&brokerv1.Properties{Headers: bad}), "headers"},
		"token":         {func() error { _, err := b.Settle(ctx, &brokerv1.SettleRequest{SettleToken: "AQ"}); return err }, "settle_token"},
		"annotations":   {func() error { _, err := b.Settle(ctx, &brokerv1.SettleRequest{Annotations: bad}); return err }, "annotations"},
		"arguments":     {func() error { _, err := a.DeclareQueue(ctx, &brokerv1.DeclareQueueRequest{Arguments: bad}); return err }, "arguments"},
		//
		"twice in a queue": {func() error {
			_, err := a.DeclareQueue(ctx, &brokerv1.DeclareQueueRequest{Arguments: twice})
			return err
		}, "x-a"},
		"twice in an exchange": {func() error {
			_, err := a.DeclareExchange(ctx, &brokerv1.DeclareExchangeRequest{Arguments: twice})
			return err
		}, "x-a"},
		"twice in a binding": {func() error {
			_, err := a.Bind(ctx, &brokerv1.BindRequest{Binding: &brokerv1.Binding{Arguments: twice}})
			return err
		}, "x-a"},
		"twice in annotations": {func() error { _, err := b.Settle(ctx, &brokerv1.SettleRequest{Annotations: twice}); return err }, "x-a"},
		"no binding":           {func() error { _, err := a.Bind(ctx, &brokerv1.BindRequest{}); return err }, "binding"},
		"destination": {func() error {
			_, err := a.Bind(ctx, &brokerv1.BindRequest{Binding: &brokerv1.Binding{DestinationType: 9}})
			return err
		}, "destination_type"},
		"long binding key": {func() error {
			_, err := a.Bind(ctx, &brokerv1.BindRequest{Binding: &brokerv1.Binding{RoutingKey: string(make([]byte, 256))}})
			return err
		}, "routing_key"},
	} {
		st := status.Convert(row.call())
		info, _ := details(st)
		if st.Code() != codes.InvalidArgument || info.GetReason() != "PRECONDITION_FAILED" || info.GetMetadata()["arg"] != row.arg {
			t.Errorf("%s: %v with %v", name, st, info)
		}
	}
}

// EX-16: a node that serves nobody refuses every method, including new ones, with UNAVAILABLE and a
// hint. Methods that report what is wrong are excepted.
func TestNobodyIsServed(t *testing.T) {
	nobody := func() error {
		return &failure.Error{Class: failure.Unavailable, Kind: "node", Reason: "serves nobody", RetryAfter: time.Second}
	}
	var served *Server
	cc := serveWith(t, nil, func(s *Server) { s.serves, served = nobody, s })
	ctx := testContext(t)
	answered := 0
	for name, info := range served.grpc.GetServiceInfo() {
		for _, m := range info.Methods {
			method := "/" + name + "/" + m.Name
			if isOpen(method) {
				continue
			}
			err := cc.Invoke(ctx, method, &emptypb.Empty{}, &emptypb.Empty{})
			if m.IsClientStream || m.IsServerStream {
				stream, serr := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
				if err = serr; err == nil && !m.IsClientStream { // it is read before the handler begins
					err = errors.Join(stream.SendMsg(&emptypb.Empty{}), stream.CloseSend())
				}
				if errors.Is(err, io.EOF) { // the stream has ended already, and RecvMsg says why
					err = nil
				}
				if err == nil {
					err = stream.RecvMsg(&emptypb.Empty{})
				}
			}
			st := status.Convert(err)
			info, retry := details(st)
			refused := strings.Contains(st.Message(), "serves nobody")
			switch {
			case served.always[method] == refused:
				t.Errorf("%s: %v; reports what is wrong: %v", method, st, served.always[method])
			case refused && (st.Code() != codes.Unavailable || info.GetReason() != "UNAVAILABLE" || retry == nil):
				t.Errorf("%s: %v with %v, %v", method, st, info, retry)
			}
			if served.always[method] {
				answered++
			}
		}
	}
	if answered != len(served.always) {
		t.Errorf("%d of %d methods that always answer are served", answered, len(served.always))
	}
}

func TestHealthAndReflection(t *testing.T) {
	cc := serve(t, nil)
	ctx := testContext(t)
	for _, name := range []string{"", "quorate.broker.v1.Broker", "quorate.broker.v1.Admin"} {
		res, err := healthv1.NewHealthClient(cc).Check(ctx, &healthv1.HealthCheckRequest{Service: name})
		if err != nil || res.GetStatus() != healthv1.HealthCheckResponse_NOT_SERVING {
			t.Errorf("service %q: %v, %v", name, res, err)
		}
	}
	for on, want := range map[bool]codes.Code{true: codes.OK, false: codes.Unimplemented} {
		cc := serveWith(t, func(c *Config) { c.Reflection = on }, func(s *Server) { s.serves = func() error { return nil } })
		s, err := reflectionv1.NewServerReflectionClient(cc).ServerReflectionInfo(ctx)
		if err != nil {
			t.Fatal(err)
		}
		req := &reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}
		// A stream that was already refused ends with EOF, and Recv returns why.
		if err := s.Send(req); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if _, err := s.Recv(); status.Code(err) != want {
			t.Errorf("reflection %v: %v", on, err)
		}
	}
}

// noBytes is the end of a call that has no messages.
type noBytes struct {
	rawStream
	grpc.ServerTransportStream
}

// A panic in a call becomes that call's error, and the server continues.
func TestPanic(t *testing.T) {
	s := New(Config{Broker: brokerOf(t, testnode.Waiting(t), false)})
	ctx, _ := onConnection(t.Context(), s)
	panics := s.unary(brokerv1.Admin_ClusterStatus_FullMethodName, func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
		panic("oh")
	})
	_, err := panics(nil, grpc.NewContextWithServerTransportStream(ctx, noBytes{}), nil, nil)
	if status.Code(err) != codes.Internal {
		t.Error(err)
	}
}

// C-4: every class has its status code.
func TestStatusCodes(t *testing.T) {
	for _, row := range []struct {
		err  error
		want codes.Code
	}{
		{&failure.Error{Class: failure.NotFound}, codes.NotFound},
		{&failure.Error{Class: failure.AccessRefused}, codes.PermissionDenied},
		{&failure.Error{Class: failure.NotAllowed}, codes.PermissionDenied},
		{&failure.Error{Class: failure.ResourceLocked}, codes.FailedPrecondition},
		{&failure.Error{Class: failure.PreconditionFailed}, codes.InvalidArgument},
		{&failure.Error{Class: failure.PreconditionFailed, State: true}, codes.FailedPrecondition},
		{&failure.Error{Class: failure.NotImplemented}, codes.Unimplemented},
		{&failure.Error{Class: failure.Unavailable, Name: "\xff"}, codes.Unavailable},
		{&failure.Error{Class: failure.Internal}, codes.Internal},
		{context.Canceled, codes.Canceled},
		{context.DeadlineExceeded, codes.DeadlineExceeded},
		{net.ErrClosed, codes.Internal},
		{nil, codes.OK},
	} {
		if got := status.Code(toStatus(row.err)); got != row.want {
			t.Errorf("%v became %v, want %v", row.err, got, row.want)
		}
	}
}

// MSG-1, MSG-6, DL-34: a publish and a delivery carry the same properties.
func TestMessageRoundTrip(t *testing.T) {
	ptr := func(s string) *string { return &s }
	mode, priority, stamp := uint32(2), uint32(0), uint64(5)
	in := &brokerv1.Properties{
		ContentType: ptr("a"), ContentEncoding: ptr(""), DeliveryMode: &mode, Priority: &priority, CorrelationId: ptr("c"),
		ReplyTo: ptr("d"), Expiration: ptr("60"), MessageId: ptr("e"), Timestamp: &stamp, Type: ptr("f"), UserId: ptr("g"), AppId: ptr("h"),
		Headers: toTable(message.Table{{Name: "own", Value: message.Int8(1)}}),
	}
	var p broker.Publish
	if err := setPublish(&p, &brokerv1.Message{Exchange: "x", RoutingKey: "k", Properties: in, Body: []byte("b")}); err != nil {
		t.Fatal(err)
	}
	d := broker.Delivery{ID: 3, Redelivered: true, DeliveryCount: 1, AcquiredCount: 2, Message: message.Message{
		Properties: p.Properties, Headers: p.Headers, Exchange: p.Exchange, RoutingKeys: []string{p.RoutingKey, "cc"}, Body: p.Body,
		Annotations: message.Table{{Name: "x-a", Value: message.Bool(true)}},
	}}
	var out brokerv1.Delivery
	setDelivery(&out, &brokerv1.Properties{}, &d)
	if out.GetProperties().String() != in.String() {
		t.Errorf("properties %v, want %v", out.GetProperties(), in)
	}
	if p.VHost != "/" || out.GetExchange() != "x" || out.GetRoutingKey() != "k" || string(out.GetBody()) != "b" || len(out.GetAnnotations().GetFields()) != 1 {
		t.Errorf("delivery %v", &out)
	}
	d.Message.Deaths = []message.Death{{Queue: "q", Reason: "rejected", Count: 2, HasTTL: true, TTLMs: 7, RoutingKeys: []string{"k"}}}
	d.Message.FirstDeath.Queue = "first"
	out.Reset()
	setDelivery(&out, &brokerv1.Properties{}, &d)
	headers, err := fromTable("headers", out.GetProperties().GetHeaders())
	if err != nil {
		t.Fatal(err)
	}
	first, _ := headers.Get("x-first-death-queue")
	_, list := headers.Get("x-death")
	if first.String() != `"first"` || list || len(out.GetDeaths()) != 1 || out.GetDeaths()[0].GetTtlMs() != 7 {
		t.Errorf("headers %v, deaths %v", headers, out.GetDeaths())
	}
}

func TestConfigValidate(t *testing.T) {
	c := Config{PublishWindow: -1}
	if err := c.Validate(); err == nil {
		t.Error("a bad Config is valid")
	}
	c = Config{Broker: brokerOf(t, testnode.Waiting(t), false)}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}
