package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/quorate/quorate/cluster/frame"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Mux is this node's end of all connections. All methods may be called concurrently.
type Mux struct {
	config       Config
	log          *slog.Logger
	identity     identity
	codec        frame.Codec
	ctx          context.Context
	cancel       context.CancelFunc
	server       *grpc.Server
	epochs       epochs
	refusals     refusals
	accepted     accepted
	processes    processes
	running      sync.WaitGroup // runs of peers, readers of accepted streams, heartbeats
	heartbeating sync.Once      // the first connection for heartbeats
	news         chan struct{}  // of capacity 1: peers are to be told now
	starved      starved
	detours      atomic.Int64 // connections that are passed on for others

	mu     sync.Mutex // guards what follows
	peers  map[id.NodeID]*peer
	pulses map[id.NodeID]*pulse
	gone   map[id.NodeID]<-chan struct{} // ends of peers that were removed
	groups map[id.GroupID]*group
	absent absent
	closed bool
}

// maxHeaderBytes is the size of a call's metadata.
const maxHeaderBytes = 64 << 10

// New returns a Mux without peers.
func New(c Config) (*Mux, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	if c.Calls == nil {
		c.Calls = nodev1.UnimplementedNodeServer{}
	}
	m := &Mux{
		config: c, log: c.Logger, identity: newIdentity(&c), codec: frame.NewCodec(),
		refusals:  refusals{logged: map[string]bool{}},
		epochs:    epochs{newest: map[id.NodeID]id.Epoch{}},
		processes: processes{held: map[id.NodeID]*held{}},
		pulses:    map[id.NodeID]*pulse{}, news: make(chan struct{}, 1),
		peers: map[id.NodeID]*peer{}, gone: map[id.NodeID]<-chan struct{}{}, groups: map[id.GroupID]*group{},
	}
	m.accepted.init()
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.server = grpc.NewServer(
		grpc.Creds(m.credentials()),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.StreamInterceptor(m.admitStream),
		grpc.MaxRecvMsgSize(c.MaxFrameBytes+frameOverheadBytes),
		grpc.MaxSendMsgSize(c.MaxFrameBytes+frameOverheadBytes),
		grpc.ForceServerCodecV2(m.codec),
		grpc.InitialWindowSize(streamWindowBytes),
		grpc.InitialConnWindowSize(connWindowBytes),
		grpc.ReadBufferSize(socketBufferBytes),
		grpc.WriteBufferSize(socketBufferBytes),
		grpc.ConnectionTimeout(c.DialTimeout),
		// Heartbeats and the opener's pings notice a frozen peer first; this clears up the accepted
		// end, with more patience, because a machine that is busy for a moment is not frozen.
		// While the opener's pings come, it sends none. gRPC does not go below a second here.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: max(2*c.PingEvery, time.Second), Timeout: 3 * c.PingTimeout}),
		grpc.WaitForHandlers(true),
	)
	nodev1.RegisterNodeServer(admitting{m}, service{NodeServer: c.Calls, m: m})
	return m, nil
}

// Serve accepts peers until Close; it returns nil after Close.
func (m *Mux) Serve(l net.Listener) error {
	if err := m.server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("transport: accepting peers at %s: %w", l.Addr(), err)
	}
	return nil
}

// SetPeer sets the addresses of a peer, the best one first; unchanged addresses have no effect. The
// Mux tries them one after the other, and keeps the peer connected until RemovePeer. The own node
// is not a peer.
func (m *Mux) SetPeer(n id.NodeID, addresses ...string) {
	if n == m.config.Node {
		return
	}
	if p := m.ensure(n); p != nil {
		p.setAddresses(addresses)
	}
}

// ensure returns the peer; one without an address waits for SetPeer. It returns nil
// after Close.
func (m *Mux) ensure(n id.NodeID) *peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.peers[n]; p != nil || m.closed {
		return p
	}
	p := newPeer(m, n, m.gone[n])
	delete(m.gone, n)
	m.peers[n] = p
	m.running.Go(p.run)
	return p
}

// RemovePeer drops the connections to a peer. It does not wait for PeerDown.
func (m *Mux) RemovePeer(n id.NodeID) {
	m.mu.Lock()
	p, heartbeats := m.peers[n], m.pulses[n]
	if p != nil {
		delete(m.peers, n)
		m.gone[n] = p.done
	}
	delete(m.pulses, n)
	m.mu.Unlock()
	if p != nil {
		p.cancel()
	}
	if heartbeats != nil {
		heartbeats.drop()
	}
}

// lookup returns nil for a node that is no peer.
func (m *Mux) lookup(n id.NodeID) *peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.peers[n]
}

// connection returns the connection to a peer if it is up.
func (m *Mux) connection(n id.NodeID) (*peerConn, error) {
	p := m.lookup(n)
	if p == nil {
		return nil, fmt.Errorf("%w: node %q", ErrUnknownPeer, n)
	}
	return p.connection()
}

// Send queues a frame on this node's own queue stream to the peer. It never blocks. The caller must
// not change the frame afterwards. Errors: ErrUnknownPeer, ErrNotConnected, ErrStreamFull,
// ErrFrameTooLarge.
func (m *Mux) Send(n id.NodeID, f *nodev1.Frame) error {
	pc, err := m.connection(n)
	if err != nil {
		return err
	}
	if err := pc.queue.push(f); err != nil {
		return fmt.Errorf("node %q: %w", n, err)
	}
	return nil
}

// Connected reports whether this node is connected to the peer, and its epoch.
func (m *Mux) Connected(n id.NodeID) (id.Epoch, bool) {
	pc, err := m.connection(n)
	if err != nil {
		return 0, false
	}
	return pc.remote.Epoch, true
}

// Silent returns for how long a heartbeat between this node and the peer, or an answer on this
// node's own connection, has been missing, and whether there is a connection. Heartbeats report
// which heartbeats arrived, so a peer that can only send, or only receive, also becomes silent. A
// node that was too busy to send does not count that time, and while it or the peer lacks
// processors, silence counts from later on.
func (m *Mux) Silent(n id.NodeID) (d time.Duration, up bool) {
	pc, err := m.connection(n)
	if err != nil {
		return 0, false
	}
	p := m.pulse(n)
	return max(0, max(pc.unanswered(), p.unanswered(time.Now(), pc.began))-p.leniency()), true
}

// Client returns a client for calls to the peer on the shared connection. Callers may keep it: each
// call uses the current connection, and fails with Unavailable while there is none. Errors:
// ErrUnknownPeer.
func (m *Mux) Client(n id.NodeID) (nodev1.NodeClient, error) {
	p := m.lookup(n)
	if p == nil || len(p.candidates()) == 0 {
		return nil, fmt.Errorf("%w: node %q", ErrUnknownPeer, n)
	}
	return nodev1.NewNodeClient(callConn{m: m, node: n}), nil
}

// Raft returns the group's transport. ServerID and ServerAddress are both the node's id. Closing it
// (raft.WithClose) ends the group on this node; calling Raft again for a group closes its previous
// transport.
//
// Raft's Shutdown waits for its calls, and calls wait for connections. So close the transport
// first, then wait for the future of Shutdown.
func (m *Mux) Raft(g id.GroupID) raft.Transport {
	n := newGroup(m, g)
	m.mu.Lock()
	old := m.groups[g]
	closed := m.closed
	if !closed {
		m.groups[g] = n
		for _, c := range m.absent.take(g) {
			n.receive(c) // before what comes from now on
		}
	}
	m.mu.Unlock()
	if old != nil {
		old.stop()
	}
	if closed {
		n.stop()
	}
	return n
}

// group returns nil for a group that has no member here.
func (m *Mux) group(g id.GroupID) *group {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.groups[g]
}

// leave takes the group off, unless it was opened again meanwhile.
func (m *Mux) leave(g *group) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.groups[g.id] == g {
		delete(m.groups, g.id)
	}
}

// Leniency returns how much longer than usual operations on this node may take because it lacks
// processors.
func (m *Mux) Leniency() time.Duration { return leniency(m.starved.share.Load(), m.config.PingTimeout) }

// Cut drops all connections for good, without waiting, so that peers notice at once that this node
// can no longer serve them. Close must still be called.
func (m *Mux) Cut() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.cancel()
	go m.server.Stop() // at once for connections; it waits for calls that they carried
}

// Close drops all connections, ends the transports of all groups and stops Serve. It returns when
// all goroutines have ended, or with the context's error before that.
func (m *Mux) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	groups := make([]*group, 0, len(m.groups))
	for _, g := range m.groups {
		groups = append(groups, g)
	}
	m.absent.close()
	m.mu.Unlock()
	m.cancel()
	for _, g := range groups {
		g.stop()
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.server.Stop()
		m.running.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("transport: links of node %q did not end in time: %w", m.config.Node, ctx.Err())
	}
}
