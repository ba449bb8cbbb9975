package transport

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/id"
)

// Metadata by which both ends of a connection name themselves: the opener on every
// call, the receiver in the header of every Link.
const (
	mdCluster = "quorate-cluster"
	mdNode    = "quorate-node"
	mdEpoch   = "quorate-epoch"
	mdToken   = "quorate-peer-token"
	mdLink    = "quorate-link"
	mdProcess = "quorate-process" // optional
	mdWanted  = "quorate-wanted"  // of a Link: the node that the opener means
)

// identity is what this node says of itself; it does not change.
type identity struct {
	cluster, token string
	self           Peer
	secure         bool // the token never travels in plain text
	refuse         func(id.NodeID) bool
	process        string // by chance: tells a call to oneself from a second process of the same id
}

func newIdentity(c *Config) identity {
	i := identity{
		cluster: c.Cluster, self: Peer{Node: c.Node, Epoch: c.Epoch},
		secure:  c.TLS != nil,
		refuse:  c.Refuse,
		process: strconv.FormatUint(rand.Uint64(), 16), //nolint:gosec // no secret
	}
	if len(c.Key) > 0 {
		mac := hmac.New(sha256.New, c.Key)
		mac.Write([]byte("quorate peer " + c.Cluster))
		i.token = hex.EncodeToString(mac.Sum(nil))
	}
	return i
}

func (i identity) values() map[string]string {
	return map[string]string{
		mdCluster: i.cluster,
		mdNode:    string(i.self.Node),
		mdEpoch:   strconv.FormatUint(uint64(i.self.Epoch), 10),
		mdToken:   i.token,
		mdProcess: i.process,
	}
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

// misled is the answer to a link that is meant for another node. It is no refusal,
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

// refused tells whether the error will come again until somebody changes something.
func refused(err error) bool {
	var r refusal
	if errors.As(err, &r) {
		return true
	}
	switch status.Code(err) {
	case codes.FailedPrecondition, codes.Unauthenticated, codes.InvalidArgument, codes.Unimplemented:
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
	if i.refuse != nil && i.refuse(id.NodeID(node)) {
		return Peer{}, refusal{codes.FailedPrecondition, fmt.Sprintf(
			"node %q was given up and taken out of cluster %q for good: start it with an empty data directory and another id", node, i.cluster)}
	}
	epoch, err := strconv.ParseUint(first(md, mdEpoch), 10, 64)
	if err != nil {
		return Peer{}, refusal{codes.InvalidArgument, fmt.Sprintf(
			"metadata %q of node %q is %q: send the node's epoch as a decimal number", mdEpoch, node, first(md, mdEpoch))}
	}
	return Peer{Node: id.NodeID(node), Epoch: id.Epoch(epoch)}, nil
}

func keyed(token string) string {
	if token == "" {
		return "no key"
	}
	return "with a key"
}

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

// note takes an epoch; newer tells that links of an older one must go.
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

func overErr(p Peer, seen id.Epoch) error {
	return refusal{codes.FailedPrecondition, fmt.Sprintf(
		"epoch %d of node %q is over, epoch %d was seen already: stop the older process, or, if the node lost its data, "+
			"let it join under a new id", p.Epoch, p.Node, seen)}
}

type peerKey struct{}

// admit checks the caller of a call and notes its epoch.
func (m *Mux) admit(ctx context.Context) (context.Context, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	p, err := m.identity.check(md)
	if err == nil {
		err = m.certified(ctx, p)
	}
	if err == nil {
		err = m.noteEpoch(p)
	}
	if err != nil {
		m.log.Debug("refused a caller", "error", err)
		return nil, err
	}
	return context.WithValue(ctx, peerKey{}, p), nil
}

// noteEpoch drops the links of older incarnations when a newer one shows up.
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

func (m *Mux) admitUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	ctx, err := m.admit(ctx)
	if err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// admittedStream is a stream whose context names the peer.
type admittedStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s admittedStream) Context() context.Context { return s.ctx }

func (m *Mux) admitStream(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	ctx, err := m.admit(s.Context())
	if err != nil {
		return err
	}
	return next(srv, admittedStream{ServerStream: s, ctx: ctx})
}

// CallerOf returns the node that made a call which Config.Calls answers.
func CallerOf(ctx context.Context) (Peer, bool) {
	p, ok := ctx.Value(peerKey{}).(Peer)
	return p, ok
}
