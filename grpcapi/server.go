// Package grpcapi serves the APIs of proto/broker/v1, grpc.health.v1 and, on request, reflection,
// as a thin translation to package broker.
//
// Errors carry google.rpc.ErrorInfo as proto/broker/v1 says, and RetryInfo where a retry helps
// (C-4). A stream has one reader and one writer; there is no goroutine per message.
package grpcapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/internal/gate"
	"github.com/quorate/quorate/internal/grpcmem"
	"github.com/quorate/quorate/internal/incoming"
	"github.com/quorate/quorate/internal/logtail"
	"github.com/quorate/quorate/management/stats"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Defaults of Config.
const (
	DefaultMaxStreams        = 1000
	DefaultPublishWindow     = 8192
	DefaultDeliveryBatch     = 256
	DefaultDeliveryBytes     = 1 << 20
	DefaultKeepaliveInterval = 15 * time.Second
	DefaultKeepaliveTimeout  = 10 * time.Second
	// MinClientKeepalive is the shortest interval of a client's keepalive pings that does not count as
	// abuse.
	MinClientKeepalive = 5 * time.Second
	// headRoomBytes is how much larger a request may be than the largest body.
	headRoomBytes = 1 << 20
	// healthEvery is the interval of readiness checks.
	healthEvery = 200 * time.Millisecond
	bufferBytes = 64 << 10

	// FitService is the name of a health service. It is NOT_SERVING while clients would do better on
	// another node that is SERVING, although this node keeps serving (broker.Fit). A node that
	// drains or starts counts as fit: it still serves the clients that it has.
	FitService = "quorate.fit"
)

// Config describes a Server. Zero values are the defaults.
type Config struct {
	Broker *broker.Broker // required
	Logger *slog.Logger   // nil: nothing is logged
	// TLS protects the clients' connections; nil: plain text.
	TLS *tls.Config
	// Gate bounds the connections, and the time until a connection has logged in; nil: a gate of this
	// server's own with the defaults.
	Gate *gate.Gate
	// Reflection serves the descriptions of the APIs to users that have logged in.
	Reflection bool

	// Node is this node's name. Lines has the newest lines of its log, and Level that log's level; nil: an empty one.
	Node  string
	Lines *logtail.Tail
	Level *logtail.Level

	// Stats collects what Figures shows; nil: a collector of this server's own, which Shutdown closes.
	Stats *stats.Collector

	// Incoming bounds the bytes of large messages that are being received; messages beyond it wait.
	// nil: 256 MiB, for this server alone.
	Incoming *incoming.Budget
	// Outgoing bounds the bytes of large answers of single calls that clients have not read; calls
	// beyond it wait, and are then refused. nil: 256 MiB, for this server alone.
	Outgoing *incoming.Budget
	// WindowBytes is how much of a call may arrive before it is read: what clients can send in one round trip, and what
	// one connection can hold of this node's memory for each of MaxStreams; 0, or less than 64 KiB: 64 KiB.
	WindowBytes   int
	MaxStreams    uint32 // concurrent streams of one connection; 0: 1000
	PublishWindow int    // messages of one Publish stream that have no result yet; 0: 8192
	// DeliveryBatch and DeliveryBytes bound one response of a Consume stream: the number of
	// deliveries, and their bytes unless a single delivery has more; 0: 256, 1 MiB.
	DeliveryBatch int
	DeliveryBytes int
	// KeepaliveInterval and KeepaliveTimeout detect clients that have vanished; 0: 15 s, 10 s.
	KeepaliveInterval, KeepaliveTimeout time.Duration
}

// Validate returns all faults at once.
func (c *Config) Validate() error {
	var errs []error
	if c.Broker == nil {
		errs = append(errs, errors.New("grpcapi: Broker is not set"))
	}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"WindowBytes", int64(c.WindowBytes)},
		{"PublishWindow", int64(c.PublishWindow)},
		{"DeliveryBatch", int64(c.DeliveryBatch)},
		{"DeliveryBytes", int64(c.DeliveryBytes)},
		{"KeepaliveInterval", int64(c.KeepaliveInterval)},
		{"KeepaliveTimeout", int64(c.KeepaliveTimeout)},
	} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("grpcapi: %s = %d: want 0 (default) or more", n.name, n.value))
		}
	}
	return errors.Join(errs...)
}

// Server serves clients. All methods may be called concurrently.
type Server struct {
	cfg    Config
	log    *slog.Logger
	b      *broker.Broker
	grpc   *grpc.Server
	health *health.Server
	rules  map[string]rule // by method
	always map[string]bool // the same
	acts   map[string]actOf
	serves func() error // the broker's

	receiving *budget
	sending   *budget // of large answers
	pace      *pace
	codec     encoding.CodecV2 // on memory
	memory    *grpcmem.Pool    // of messages that are received or sent

	outgoing sync.Pool        // of *outgoing
	tags     atomic.Uint64    // for consumers without a tag of their own
	ownStats *stats.Collector // nil: they are the caller's

	life    context.Context // ended by Shutdown; streams then end with its cause
	stop    context.CancelCauseFunc
	stopped sync.WaitGroup
}

// setDefaults replaces zero values. It returns the collector that it has made; nil: the caller has one.
func (c *Config) setDefaults() (own *stats.Collector) {
	c.WindowBytes = max(c.WindowBytes, windowBytes)
	setDefault(&c.MaxStreams, DefaultMaxStreams)
	setDefault(&c.PublishWindow, DefaultPublishWindow)
	setDefault(&c.DeliveryBatch, DefaultDeliveryBatch)
	setDefault(&c.DeliveryBytes, DefaultDeliveryBytes)
	setDefault(&c.KeepaliveInterval, DefaultKeepaliveInterval)
	setDefault(&c.KeepaliveTimeout, DefaultKeepaliveTimeout)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Incoming == nil {
		c.Incoming = incoming.New(0)
	}
	if c.Outgoing == nil {
		c.Outgoing = incoming.New(0)
	}
	if c.Stats == nil {
		own = stats.New(stats.Config{Broker: c.Broker, Logger: c.Logger})
		c.Stats = own
	}
	if c.Lines == nil {
		c.Lines = logtail.New()
	}
	if c.Level == nil {
		c.Level = &logtail.Level{}
	}
	if c.Gate == nil {
		c.Gate = gate.New(gate.Config{Name: "grpc", Logger: c.Logger})
	}
	return own
}

// New returns a server that does not listen yet. The Config must be valid.
func New(c Config) *Server {
	own := c.setDefaults()
	memory := &grpcmem.Pool{}
	s := &Server{
		receiving: newBudget(c.Incoming, c.WindowBytes), sending: newAnswers(c.Outgoing), pace: &pace{}, codec: grpcmem.NewCodec(memory), memory: memory, cfg: c, log: c.Logger, b: c.Broker, health: health.NewServer(),
		ownStats: own, rules: rules(), always: always(), acts: acts(), serves: c.Broker.Serving.Serves,
	}
	s.life, s.stop = context.WithCancelCause(context.Background())
	creds := insecure.NewCredentials()
	if c.TLS != nil {
		creds = credentials.NewTLS(c.TLS)
	}
	s.grpc = grpc.NewServer(
		grpc.Creds(&counted{TransportCredentials: creds, b: c.Broker, life: s.life, within: c.KeepaliveTimeout, pace: s.pace}),
		grpc.MaxConcurrentStreams(c.MaxStreams),
		grpc.MaxRecvMsgSize(c.Broker.MaxBodyBytes()+headRoomBytes),
		grpc.MaxSendMsgSize(c.Broker.MaxBodyBytes()+headRoomBytes+c.DeliveryBytes),
		grpc.ReadBufferSize(bufferBytes),
		grpc.WriteBufferSize(bufferBytes),
		experimental.BufferPool(memory),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: c.KeepaliveInterval, Timeout: c.KeepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: MinClientKeepalive, PermitWithoutStream: true}),
		grpc.ConnectionTimeout(2*max(c.Gate.LoginTimeout(), time.Second)), // the gate's interceptor comes first
		grpc.InTapHandle(s.early),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.InitialWindowSize(int32(c.WindowBytes)),
		grpc.InitialConnWindowSize(connWindowBytes),
		grpc.StreamInterceptor(s.stream),
		grpc.ForceServerCodecV2(answerCodec{s.codec, memory}),
	)
	to := guarded{s}
	brokerv1.RegisterBrokerServer(to, &brokerServer{s: s})
	brokerv1.RegisterAdminServer(to, &adminServer{b: c.Broker})
	brokerv1.RegisterPoliciesServer(to, &policyServer{b: c.Broker})
	brokerv1.RegisterDefinitionsServer(to, &definitionsServer{b: c.Broker})
	brokerv1.RegisterBackupsServer(to, &backupsServer{b: c.Broker})
	brokerv1.RegisterMessagesServer(to, &messagesServer{b: c.Broker})
	brokerv1.RegisterTransactionsServer(to, &transactionsServer{b: c.Broker})
	brokerv1.RegisterEventsServer(to, &eventsServer{b: c.Broker})
	brokerv1.RegisterLogsServer(to, &logsServer{node: c.Node, lines: c.Lines, level: c.Level})
	brokerv1.RegisterFiguresServer(to, &figuresServer{node: c.Node, stats: c.Stats})
	brokerv1.RegisterConnectionsServer(to, &connectionsServer{b: c.Broker})
	brokerv1.RegisterAccessServer(to, &accessServer{b: c.Broker})
	healthv1.RegisterHealthServer(to, s.health)
	if c.Reflection {
		reflection.Register(s.grpc)
	}
	s.setHealth(false)
	return s
}

// IncomingStats are the present figures of large messages, and counts since the start.
type IncomingStats struct {
	Bytes   int64
	Waiting int // for room
	// Waits is how many messages had to wait, Refused how many were refused because too many waited,
	// Late how many took too long.
	Waits, Refused, Late uint64
}

// Incoming returns the figures of large messages.
func (s *Server) Incoming() (x IncomingStats) {
	x.Bytes, x.Waiting = s.receiving.figures()
	x.Waits, x.Refused, x.Late = s.receiving.waited.Load(), s.receiving.refused.Load(), s.receiving.late.Load()
	return x
}

// OutgoingStats are the present figures of large answers, and counts since the start.
type OutgoingStats struct {
	Bytes   int64 // of answers that are being made, or that clients have not read
	Waiting int   // calls that wait for room
	// Waits is how many calls had to wait, Refused how many were refused.
	Waits, Refused uint64
}

// Outgoing returns the figures of large answers.
func (s *Server) Outgoing() (x OutgoingStats) {
	x.Bytes, x.Waiting = s.sending.figures()
	x.Waits, x.Refused = s.sending.waited.Load(), s.sending.refused.Load()
	return x
}

// setDefault writes the default over a zero value.
func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Serve serves clients that connect to l until Shutdown; then it returns nil.
func (s *Server) Serve(l net.Listener) error {
	s.stopped.Go(s.watchReadiness)
	return s.grpc.Serve(s.cfg.Gate.Listen(l))
}

// Shutdown ends streams with UNAVAILABLE, lets calls finish until ctx ends, and closes
// all connections.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop(errStopping())
	s.health.Shutdown()
	done := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = fmt.Errorf("grpcapi: calls were cut off: %w", ctx.Err())
		s.grpc.Stop()
		<-done
	}
	s.stopped.Wait()
	if s.ownStats != nil {
		s.ownStats.Close()
	}
	return err
}

// watchReadiness keeps the health services in line with the broker's readiness.
func (s *Server) watchReadiness() {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	ready, fit := false, false
	for {
		if now := s.b.Serving.Fit() == nil; now != fit {
			fit = now
			s.health.SetServingStatus(FitService, serving(fit))
		}
		if now := s.b.Ready() == nil; now != ready {
			ready = now
			s.setHealth(ready)
		}
		select {
		case <-tick.C:
		case <-s.life.Done():
			return
		}
	}
}

// serving converts readiness to the health protocol.
func serving(is bool) healthv1.HealthCheckResponse_ServingStatus {
	if is {
		return healthv1.HealthCheckResponse_SERVING
	}
	return healthv1.HealthCheckResponse_NOT_SERVING
}

// setHealth sets the health of the server as a whole and of the services that balancers ask about
// by name.
func (s *Server) setHealth(ready bool) {
	state := serving(ready)
	for _, name := range []string{"", brokerv1.Broker_ServiceDesc.ServiceName, brokerv1.Admin_ServiceDesc.ServiceName} {
		s.health.SetServingStatus(name, state)
	}
}
