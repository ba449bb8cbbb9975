package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/cluster/pulse"
	"github.com/quorate/quorate/id"
)

// Mux is this node's end of all connections. All methods may be called concurrently.
type Mux struct {
	local
	peers
	groups
	accepted accepted
	server   *grpc.Server
	detours  atomic.Int64 // connections that are passed on for others
}

// Serve accepts peers until Close or Cut begins; then it returns nil, and leaves it to Close to wait for calls of peers.
func (m *Mux) Serve(l net.Listener) error {
	ended := make(chan error, 1)
	go func() { ended <- m.server.Serve(l) }() // which waits for these calls
	select {
	case err := <-ended:
		if err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			return fmt.Errorf("transport: accepting peers at %s: %w", l.Addr(), err)
		}
	case <-m.ctx.Done():
	}
	return nil
}

// watch takes in a connection that this node has not opened for itself, as one of those with a peer.
func (m *Mux) watch(n id.NodeID, conn net.Conn) (end func()) {
	tcp, is := conn.(*net.TCPConn)
	if !is {
		return func() {}
	}
	return m.pulses.Of(n).Lines.Add(&pulse.Line{Conn: tcp, GiveUp: func(why error) {
		m.log.Warn("a connection that stands still is cut off", "peer", n, "error", stuckErr(why))
	}})
}

// RemovePeer drops the connections to a peer until SetPeer sets it again. It does not wait for PeerDown.
func (m *Mux) RemovePeer(n id.NodeID) {
	m.remove(n)
	m.pulses.Remove(n)
}

// dropOlder ends the connections to incarnations of a node before this one.
func (m *Mux) dropOlder(p Peer) {
	m.accepted.dropOlder(p)
	if out := m.lookup(p.Node); out != nil {
		out.dropOlder(p.Epoch)
	}
}

// Raft returns the group's transport. ServerID and ServerAddress are both the node's id. Closing it
// (raft.WithClose) ends the group on this node; calling Raft again for a group closes its previous
// transport.
//
// Raft's Shutdown waits for its calls, and calls wait for connections. So close the transport
// first, then wait for the future of Shutdown.
func (m *Mux) Raft(g id.GroupID) raft.Transport {
	n := newGroup(&m.local, &m.peers, g, m.leave)
	m.open(n)
	return n
}

// Leniency returns how much longer than usual operations on this node may take because it lacks
// processors.
func (m *Mux) Leniency() time.Duration { return m.pulses.Leniency() }

// Cut drops all connections for good, without waiting, so that peers notice at once that this node
// can no longer serve them. Close must still be called.
func (m *Mux) Cut() {
	m.peers.close()
	m.groups.close()
	m.cancel()
	go m.server.Stop() // at once for connections; it waits for calls that they carried
}

// Close drops all connections, ends the transports of all groups and stops Serve. It returns when
// all goroutines have ended, or with the context's error before that.
func (m *Mux) Close(ctx context.Context) error {
	m.peers.close()
	m.groups.close()
	m.cancel()
	m.stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.server.Stop()
		m.running.Wait()
		m.pulses.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("transport: links of node %q did not end in time: %w", m.config.Node, ctx.Err())
	}
}

// Recheck checks all connected peers again, and ends the connections with those that do not read
// the finalised version, or that Config.Refuse refuses now.
func (m *Mux) Recheck() {
	for _, p := range m.all() {
		if pc, err := p.connection(); err == nil {
			if err := m.identity.recheck(pc.remote, pc.reads); err != nil {
				pc.fail(err)
			}
		}
	}
	m.accepted.recheck(m.identity.recheck)
	m.pulses.Recheck()
}

// Say sends all peers at once what this node says of itself, not only with the next heartbeat. It does not wait.
func (m *Mux) Say() { m.pulses.Say() }

// TakeOver sets whether members here take leadership that a peer hands over, which they do at first. A group that
// elects a leader because it has none may elect them either way, if others cannot lead. Peers are notified.
func (m *Mux) TakeOver(may bool) {
	m.pulses.TakeOver(may)
}

// Drains reports whether this node, or a peer according to its last heartbeat, takes over no leadership. A peer of an
// older version does not report it.
func (m *Mux) Drains(n id.NodeID) bool {
	if n == m.config.Node {
		return m.pulses.Drains()
	}
	return m.pulses.Of(n).Drains()
}

// CalledBy reports whether the connection that a peer opened to this node is up, directly or by a detour. Connected is
// about this node's own one.
func (m *Mux) CalledBy(n id.NodeID) bool { return m.accepted.whole(n) }

// Stats returns the current statistics.
func (m *Mux) Stats() Stats {
	s := Stats{MaxStreamQueueBytes: m.config.MaxStreamQueueBytes, Refused: m.refusals.total(), Starved: float64(m.pulses.Starved()) / 1000}
	s.Detours, s.Former, s.Stuck = int(m.detours.Load()), m.removed(), m.pulses.Stuck()
	s.AbsentCalls, s.AbsentRefused = m.waiting()
	for _, p := range m.all() {
		ps := p.stats()
		ps.Inbound = m.accepted.stats(p.node)
		s.Peers = append(s.Peers, ps)
	}
	slices.SortFunc(s.Peers, func(a, b PeerStats) int { return strings.Compare(string(a.Node), string(b.Node)) })
	return s
}
