package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/grpcmem"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// badTime is how long a node is tried only after all others, because it was lost or its connection
// was closed.
const badTime = 2 * time.Second

// node is one address and everything that runs over it.
type node struct {
	address  string
	conn     *grpc.ClientConn
	broker   brokerv1.BrokerClient
	policies brokerv1.PoliciesClient
	access   brokerv1.AccessClient
	defs     brokerv1.DefinitionsClient
	backups  brokerv1.BackupsClient
	events   brokerv1.EventsClient
	logs     brokerv1.LogsClient
	figures  brokerv1.FiguresClient
	admin    brokerv1.AdminClient
	messages brokerv1.MessagesClient
	joint    brokerv1.TransactionsClient
	clients  brokerv1.ConnectionsClient
	health   healthv1.HealthClient

	following atomic.Bool // follow is running
	seeking   atomic.Bool // a search for a better node is running

	mu       sync.Mutex
	life     context.Context // ends when the node is found lost
	end      context.CancelCauseFunc
	work     context.Context // derived from life; also ends when the node is left for a better one
	endWork  context.CancelCauseFunc
	users    int
	badUntil time.Time
	seen     time.Time // last answer to a probe
	asked    time.Time // when guard began the current probe; zero: none
	probed   time.Time // when its last probe ended
	doubted  bool      // the current probe takes long
	unfit    bool      // the node reports that clients do better elsewhere

	passUntil time.Time     // until then pickFirst passes the node over
	passFor   time.Duration // how long that is or was; 0: it has answered since
}

// begin begins a life. mu is held, or no other goroutine knows the node yet.
func (n *node) begin() {
	n.life, n.end = context.WithCancelCause(context.Background())
	n.work, n.endWork = context.WithCancelCause(n.life)
}

var errNodeLost = errors.New("client: node does not answer")

// use ties ctx to the node: streams and calls end when the node is lost, or left for a better one.
func (n *node) use(ctx context.Context) (context.Context, func(), error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tie(ctx, n.work)
}

// hold is use for a stream that cannot move to another node: it ends only when the node is lost.
func (n *node) hold(ctx context.Context) (context.Context, func(), error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tie(ctx, n.life)
}

// tie returns a context that ends with ctx, and also when to ends. The caller holds mu.
func (n *node) tie(ctx, to context.Context) (context.Context, func(), error) {
	use, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(to, func() { cancel(errNodeLost) })
	n.users++
	return use, func() {
		stop()
		cancel(nil)
		n.mu.Lock()
		n.users--
		n.mu.Unlock()
	}, ctx.Err()
}

// used reports whether calls or streams run over the node; guard probes only such nodes.
func (n *node) used() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.users > 0
}

// lose ends everything that runs over the node.
func (n *node) lose(now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.badUntil, n.seen = now.Add(badTime), time.Time{}
	n.end(errNodeLost)
	n.begin()
}

// leave ends everything that can continue on another node.
func (n *node) leave(now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.badUntil, n.seen = now.Add(badTime), time.Time{}
	n.endWork(errNodeLost)
	n.work, n.endWork = context.WithCancelCause(n.life)
}

// doubt makes the client probe the node before it uses it again.
func (n *node) doubt() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen = time.Time{}
}

// avoid makes other nodes preferred for a while, and reports whether that is a change. What runs
// over the node ends by itself.
func (n *node) avoid(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	news := !now.Before(n.badUntil)
	n.badUntil, n.seen = now.Add(badTime), time.Time{}
	return news
}

// probe checks whether the node answers, and whether it accepts new work.
func (n *node) probe(ctx context.Context, timeout time.Duration) (serving bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := n.health.Check(ctx, &healthv1.HealthCheckRequest{})
	if err != nil && status.Code(err) != codes.Unimplemented {
		return false, fmt.Errorf("client: node %s: %w", n.address, err)
	}
	n.mu.Lock()
	n.seen, n.passUntil, n.passFor = time.Now(), time.Time{}, 0
	n.mu.Unlock()
	return err != nil || r.GetStatus() == healthv1.HealthCheckResponse_SERVING, nil
}

// nodes are all addresses that a client knows.
type nodes struct {
	cfg    Config
	with   credential
	memory *grpcmem.Pool // of messages that are sent or received

	mu      sync.Mutex
	all     map[string]*node
	order   []string // configured addresses first, then learned ones
	current int      // index into order where the next pick begins
	closed  bool
}

// newNodes begins at a random address, so that many clients spread over the nodes.
func newNodes(cfg Config, with credential) *nodes {
	ns := &nodes{cfg: cfg, with: with, memory: &grpcmem.Pool{}, all: map[string]*node{}, order: slices.Clone(cfg.Addresses)}
	ns.current = rand.IntN(len(ns.order)) //nolint:gosec // many clients spread over the nodes
	return ns
}

// addresses returns the addresses that are known now.
func (ns *nodes) addresses() []string {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return slices.Clone(ns.order)
}

// learned replaces the learned addresses; configured ones stay, whatever the cluster reports.
func (ns *nodes) learned(addresses []string) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	at := ns.order[ns.current]
	order := slices.Clone(ns.cfg.Addresses)
	for _, a := range addresses {
		if !slices.Contains(order, a) {
			order = append(order, a)
		}
	}
	if !slices.Contains(order, at) {
		order = append(order, at) // in use
	}
	ns.order, ns.current = order, slices.Index(order, at)
}

// candidates returns the nodes in the order in which to try them.
func (ns *nodes) candidates(now time.Time) ([]*node, error) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if ns.closed {
		return nil, ErrClosed
	}
	var good, bad []*node
	for i := range ns.order {
		n, err := ns.at(ns.order[(ns.current+i)%len(ns.order)])
		if err != nil {
			return nil, err
		}
		if n.bad(now) {
			bad = append(bad, n)
		} else {
			good = append(good, n)
		}
	}
	return append(good, bad...), nil
}

// at returns the node of an address. ns.mu is held.
func (ns *nodes) at(address string) (*node, error) {
	if n := ns.all[address]; n != nil {
		return n, nil
	}
	creds := ns.cfg.Credentials
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	opts := append([]grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithPerRPCCredentials(ns.with),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           grpcbackoff.Config{BaseDelay: baseRetry, Multiplier: 1.6, Jitter: 0.5, MaxDelay: maxRetry},
			MinConnectTimeout: ns.cfg.ProbeTimeout,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxGRPCBytes), grpc.MaxCallSendMsgSize(maxGRPCBytes), grpc.ForceCodecV2(grpcmem.NewCodec(ns.memory))),
		experimental.WithBufferPool(ns.memory),
		grpc.WithReadBufferSize(128 << 10), grpc.WithWriteBufferSize(128 << 10),
		grpc.WithInitialWindowSize(4 << 20), grpc.WithInitialConnWindowSize(8 << 20),
	}, ns.cfg.DialOptions...)
	conn, err := grpc.NewClient("passthrough:///"+address, opts...)
	if err != nil {
		return nil, fmt.Errorf("client: address %q: %w", address, err)
	}
	n := &node{
		address: address, conn: conn, broker: brokerv1.NewBrokerClient(conn),
		admin: brokerv1.NewAdminClient(conn), policies: brokerv1.NewPoliciesClient(conn), access: brokerv1.NewAccessClient(conn),
		defs: brokerv1.NewDefinitionsClient(conn), backups: brokerv1.NewBackupsClient(conn), messages: brokerv1.NewMessagesClient(conn), joint: brokerv1.NewTransactionsClient(conn), events: brokerv1.NewEventsClient(conn), logs: brokerv1.NewLogsClient(conn), figures: brokerv1.NewFiguresClient(conn),
		clients: brokerv1.NewConnectionsClient(conn),
		health:  healthv1.NewHealthClient(conn),
	}
	n.begin()
	ns.all[address] = n
	return n, nil
}

// prefer makes a node the first candidate.
func (ns *nodes) prefer(n *node) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if i := slices.Index(ns.order, n.address); i >= 0 {
		ns.current = i
	}
}

// lost handles a node that has failed a call: everything that runs over the node ends. A cancelled
// call proves nothing. A call that timed out may hang on a dead connection, so the node gets a new
// one; so does one that is to be left, because the address may be that of a service, which leads to another node now.
func (ns *nodes) lost(n *node, cause error) {
	if errors.Is(cause, context.Canceled) {
		return
	}
	ns.cfg.Logger.Debug("node is lost", "address", n.address, "error", cause)
	n.lose(time.Now())
	if status.Code(cause) == codes.DeadlineExceeded || errors.Is(cause, errNotServing) {
		ns.reconnect(n)
	}
}

// reconnect gives a node that does not answer a new connection. The present one may stay silent for
// ever: a machine that fails does not close its connections. Also, the address may lead to another
// machine by now, after a restart or if it belongs to a service. Only a new connection shows that.
func (ns *nodes) reconnect(n *node) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if ns.closed || ns.all[n.address] != n {
		return
	}
	delete(ns.all, n.address)
	fresh, err := ns.at(n.address)
	if err != nil {
		ns.all[n.address] = n // keep the old one; the options were valid before
		return
	}
	n.mu.Lock()
	fresh.badUntil, fresh.passUntil, fresh.passFor = n.badUntil, n.passUntil, n.passFor
	n.mu.Unlock()
	_ = n.conn.Close() // an error changes nothing
}

// close closes all connections; no new ones are made from then on.
func (ns *nodes) close() {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.closed = true
	for _, n := range ns.all {
		_ = n.conn.Close() // an error changes nothing
	}
}
