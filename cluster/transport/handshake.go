package transport

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/gate"
)

// Metadata by which both ends of a connection name themselves: the opener on every
// call, the receiver in the header of every Link.
const (
	mdCluster = "quorate-cluster"
	mdNode    = "quorate-node"
	mdEpoch   = "quorate-epoch"
	mdToken   = "quorate-peer-token" //nolint:gosec // the name of a header
	mdStream  = "quorate-link"
	mdProcess = "quorate-process" // optional
	mdWanted  = "quorate-wanted"  // of a Link: the node that the opener means
	mdReads   = "quorate-reads"   // newest version of machines that the node reads; without it 1
	mdStore   = "quorate-store"   // builds that know no stores send none
	mdFresh   = "quorate-fresh"   // there while no catalog has taken the store
)

// identity is what this node says of itself; it does not change, but that its store ceases
// to be fresh.
type identity struct {
	cluster, token string
	reads          uint8
	finalised      func() uint8
	self           Peer
	secure         bool // the token never travels in plain text
	refuse         func(Peer) error
	fresh          func() bool
	process        string // by chance: tells a call to oneself from a second process of the same id
}

// newIdentity makes the token once: it does not change while the node runs.
func newIdentity(c *Config) identity {
	i := identity{
		cluster: c.Cluster, self: Peer{Node: c.Node, Epoch: c.Epoch, Store: c.Store},
		secure: c.TLS != nil,
		refuse: c.Refuse, fresh: c.Fresh, reads: c.Reads, finalised: c.Finalised,
		process: strconv.FormatUint(rand.Uint64(), 16), //nolint:gosec // no secret
	}
	if len(c.Key) > 0 {
		mac := hmac.New(sha256.New, c.Key)
		mac.Write([]byte("quorate peer " + c.Cluster))
		i.token = hex.EncodeToString(mac.Sum(nil))
	}
	return i
}

// values are computed for each call, because a store ceases to be fresh while the node runs.
func (i identity) values() map[string]string {
	v := map[string]string{
		mdCluster: i.cluster,
		mdNode:    string(i.self.Node),
		mdEpoch:   strconv.FormatUint(uint64(i.self.Epoch), 10),
		mdToken:   i.token,
		mdProcess: i.process,
		mdReads:   strconv.Itoa(int(i.reads)),
	}
	if i.self.Store != "" {
		v[mdStore] = string(i.self.Store)
	}
	if i.fresh != nil && i.fresh() {
		v[mdFresh] = "yes"
	}
	return v
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (i identity) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return i.values(), nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (i identity) RequireTransportSecurity() bool { return i.secure }

// refusal is the answer to a peer that cannot be talked to until somebody changes
// something: its text says what.
type refusal struct {
	code codes.Code
	text string
}

// Error implements error.
func (r refusal) Error() string { return r.text }

// GRPCStatus gives the refusal to the peer as it is.
func (r refusal) GRPCStatus() *status.Status { return status.New(r.code, r.text) }

// misled is the answer to a connection that is meant for another node. It is no refusal,
// because it may pass: names, and IP addresses that are reused, move with the processes.
func (i identity) misled(from id.NodeID, wanted string) error {
	return status.Errorf(codes.Unavailable, "node %q answers where node %q looks for node %q: if that lasts, correct the address of %q",
		i.self.Node, from, wanted, wanted)
}

// twiceErr refuses a second process of a node's id.
func twiceErr(n id.NodeID) error {
	return refusal{codes.FailedPrecondition, fmt.Sprintf(
		"node id %q is used by two processes: give every node its own id and its own data directory", n)}
}

// refused reports whether the error will come again until somebody changes something.
func refused(err error) bool {
	var all failedAll
	if errors.As(err, &all) {
		// One address may lead to an unauthenticated client while the peer is not at the other one yet.
		return !slices.ContainsFunc(all, func(err error) bool { return !refused(err) })
	}
	var r refusal
	if errors.As(err, &r) {
		return true
	}
	switch status.Code(err) {
	case codes.FailedPrecondition, codes.Unauthenticated, refusedStore, codes.InvalidArgument, codes.Unimplemented:
		return true
	default:
		return false
	}
}

// check reads who the other end is and whether this node may talk to it.
func (i identity) check(md metadata.MD) (Peer, error) {
	cluster, node := first(md, mdCluster), first(md, mdNode)
	if node == "" {
		return Peer{}, refusal{codes.InvalidArgument, fmt.Sprintf(
			"the call to node %q has no metadata %q: this port is for nodes of the cluster; clients use the clients' port",
			i.self.Node, mdNode)}
	}
	if cluster != i.cluster {
		return Peer{}, refusal{codes.FailedPrecondition, fmt.Sprintf(
			"node %q belongs to cluster %q, node %q to cluster %q: set the same cluster name on both, or correct the list of nodes to join",
			node, cluster, i.self.Node, i.cluster)}
	}
	if token := first(md, mdToken); !hmac.Equal([]byte(token), []byte(i.token)) {
		return Peer{}, refusal{codes.Unauthenticated, fmt.Sprintf(
			"the cluster key of node %q (%s) is not that of node %q (%s): set the same key on all nodes of cluster %q",
			node, keyed(token), i.self.Node, keyed(i.token), i.cluster)}
	}
	if node == string(i.self.Node) && first(md, mdProcess) == i.process {
		return Peer{}, refusal{codes.Unavailable, fmt.Sprintf(
			"node %q called itself: the address that it knows of another node leads here", node)}
	}
	if node == string(i.self.Node) {
		return Peer{}, twiceErr(i.self.Node)
	}
	if err := i.checkVersion(node, readsOf(md)); err != nil {
		return Peer{}, err
	}
	epoch, err := strconv.ParseUint(first(md, mdEpoch), 10, 64)
	if err != nil {
		return Peer{}, refusal{codes.InvalidArgument, fmt.Sprintf(
			"metadata %q of node %q is %q: send the node's epoch as a decimal number", mdEpoch, node, first(md, mdEpoch))}
	}
	p := Peer{Node: id.NodeID(node), Epoch: id.Epoch(epoch), Store: id.StoreID(first(md, mdStore)), Fresh: first(md, mdFresh) != ""}
	return p, i.judge(p)
}

// judge refuses a peer that Config.Refuse refuses.
func (i identity) judge(p Peer) error {
	if i.refuse == nil {
		return nil
	}
	if why := i.refuse(p); why != nil {
		return refusal{refusedStore, why.Error()}
	}
	return nil
}

// refusedStore is the code of refusals by Config.Refuse, and of no others.
const refusedStore = codes.PermissionDenied

// Recheck checks all connected peers again, and ends the connections with those that do not read
// the finalised version, or that Config.Refuse refuses now.
func (m *Mux) Recheck() {
	m.mu.Lock()
	peers := slices.Collect(maps.Values(m.peers))
	pulses := slices.Collect(maps.Values(m.pulses))
	m.mu.Unlock()
	for _, p := range peers {
		if pc, err := p.connection(); err == nil {
			if err := m.identity.recheck(pc.remote, pc.reads); err != nil {
				pc.fail(err)
			}
		}
	}
	m.accepted.recheck(m.identity.recheck)
	for _, p := range pulses {
		p.recheck(m.identity.judge)
	}
}

// checkVersion refuses a node whose build cannot read what may be written already.
func (i identity) checkVersion(node string, reads uint8) error {
	if finalised := i.finalised(); reads < finalised {
		return refusal{codes.FailedPrecondition, fmt.Sprintf(
			"node %q runs a build that reads version %d of stored state, and version %d is finalised in cluster %q: "+
				"start it with a newer build, that of node %q for example", node, reads, finalised, i.cluster, i.self.Node)}
	}
	return nil
}

// readsOf returns the version that a node says to read. Builds that do not say it read 1,
// and what cannot be read as a number counts as that.
func readsOf(md metadata.MD) uint8 {
	n, err := strconv.ParseUint(first(md, mdReads), 10, 8)
	if err != nil {
		return 1
	}
	return uint8(n)
}

// recheck is check of a peer that was let in before.
func (i identity) recheck(p Peer, reads uint8) error {
	if err := i.checkVersion(string(p.Node), reads); err != nil {
		return err
	}
	return i.judge(p)
}

// keyed shows whether there is a token, and never the token.
func keyed(token string) string {
	if token == "" {
		return "no key"
	}
	return "with a key"
}

// first returns "" where there is no such metadata; each of them is sent once.
func first(md metadata.MD, key string) string {
	if v := md.Get(key); len(v) > 0 {
		return v[0]
	}
	return ""
}

// epochs remembers the newest epoch of every node that proved to be of the cluster.
type epochs struct {
	mu     sync.Mutex
	newest map[id.NodeID]id.Epoch
}

// note takes an epoch; newer reports that connections of an older one must go.
func (e *epochs) note(p Peer) (newer bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	seen := e.newest[p.Node]
	if p.Epoch < seen {
		return false, overErr(p, seen)
	}
	e.newest[p.Node] = p.Epoch
	return p.Epoch > seen, nil
}

// overErr refuses an incarnation that a newer one has taken the place of.
func overErr(p Peer, seen id.Epoch) error {
	return refusal{codes.FailedPrecondition, fmt.Sprintf(
		"epoch %d of node %q is over, epoch %d was seen already: stop the older process, or, if its data directory is an "+
			"older copy, start it with an empty one", p.Epoch, p.Node, seen)}
}

// vet finds out who calls, and whether this node may talk to it.
func (m *Mux) vet(ctx context.Context, md metadata.MD) (Peer, error) {
	p, err := m.identity.check(md)
	if err == nil {
		err = m.certified(ctx, p)
	}
	return p, err
}

// connOf returns the gate's connection of a call; nil if there is none.
func connOf(ctx context.Context) *gate.Conn {
	from, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return nil
	}
	caller, _ := from.AuthInfo.(callerInfo)
	return caller.conn
}

// peerKey is the key of the admitted peer in a call's context.
type peerKey struct{}

// admit checks the caller of a call and notes its epoch.
func (m *Mux) admit(ctx context.Context) (context.Context, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	p, err := m.vet(ctx, md)
	if err == nil {
		err = m.noteEpoch(p)
	}
	if err != nil {
		m.log.Debug("refused a caller", "error", err)
		return nil, err
	}
	connOf(ctx).Admit()
	return context.WithValue(ctx, peerKey{}, p), nil
}

// noteEpoch drops the connections of older incarnations when a newer one shows up.
func (m *Mux) noteEpoch(p Peer) error {
	newer, err := m.epochs.note(p)
	if err != nil || !newer {
		return err
	}
	m.accepted.dropOlder(p)
	if out := m.lookup(p.Node); out != nil {
		out.dropOlder(p.Epoch)
	}
	return nil
}

// admitting registers services whose callers are checked before anything of a request is read: it may be
// as large as the largest frame. gRPC's tap does not do: what it refuses stays in memory until the time
// that the caller has set for the call.
type admitting struct{ m *Mux }

// RegisterService implements grpc.ServiceRegistrar.
func (a admitting) RegisterService(desc *grpc.ServiceDesc, impl any) {
	own := *desc
	own.Methods = slices.Clone(desc.Methods)
	for i := range own.Methods {
		m := &own.Methods[i]
		m.Handler = a.m.admitUnary(m.Handler)
	}
	a.m.server.RegisterService(&own, impl)
}

// admitUnary checks the caller before the request is read.
func (m *Mux) admitUnary(of grpc.MethodHandler) grpc.MethodHandler {
	return func(srv any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		ctx, err := m.admit(ctx)
		if err != nil {
			return nil, err
		}
		return of(srv, ctx, read, nil)
	}
}

// admittedStream is a stream whose context names the peer.
type admittedStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s admittedStream) Context() context.Context { return s.ctx }

// admitStream is gRPC's interceptor of streams: it runs before their first message is read.
func (m *Mux) admitStream(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	ctx, err := m.admit(s.Context())
	if err != nil {
		return err
	}
	return next(srv, admittedStream{ServerStream: s, ctx: ctx})
}

// CallerOf returns the node that made a call to Config.Calls.
func CallerOf(ctx context.Context) (Peer, bool) {
	p, ok := ctx.Value(peerKey{}).(Peer)
	return p, ok
}
