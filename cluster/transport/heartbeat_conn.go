package transport

import (
	"bufio"
	"errors"
	"net"

	"github.com/quorate/quorate/cluster/pulse"
)

// heartbeatConn is the connection for heartbeats that belongs to a peer connection.
type heartbeatConn struct {
	conn   net.Conn
	reader *bufio.Reader
}

// serveHeartbeats takes what comes on a connection for heartbeats until it ends.
func (l *local) serveHeartbeats(p *pulse.Pulse, conn net.Conn, r *bufio.Reader, peer Peer) error {
	err := p.Serve(conn, r, peer.Epoch, func() error { return l.identity.judge(peer) })
	if over, is := errors.AsType[*pulse.OverError](err); is {
		return overErr(peer, over.Newest)
	}
	return err
}

// headed is a connection of which some bytes were read already. One goroutine reads.
type headed struct {
	net.Conn
	head []byte
}

// Read implements net.Conn.
func (h *headed) Read(b []byte) (int, error) {
	if len(h.head) == 0 {
		return h.Conn.Read(b)
	}
	n := copy(b, h.head)
	h.head = h.head[n:]
	return n, nil
}
