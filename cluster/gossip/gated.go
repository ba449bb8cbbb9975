package gossip

import (
	"fmt"
	"log"
	"log/slog"
	"net"
	"strings"
	"sync"

	"github.com/hashicorp/memberlist"

	"github.com/quorate/quorate/internal/gate"
)

// maxCallers bounds the connections for gossip at the same time; each lasts at most for
// streamTimeout.
const maxCallers = 128

// bindTries is how often a free port is looked for: it must be free for TCP and UDP.
const bindTries = 10

// NewGate returns a gate for gossip: who calls proves nothing before memberlist has read what it
// says, so all are unauthenticated clients.
func NewGate(log *slog.Logger) *gate.Gate {
	return gate.New(gate.Config{
		Name: "gossip", Logger: log, MaxConnections: maxCallers, MaxUnauthenticated: maxCallers, MaxPerAddress: maxCallers, LoginTimeout: -1, Own: true,
	})
}

// gated is memberlist's transport with a gate before its connections.
type gated struct {
	*memberlist.NetTransport
	streams chan net.Conn
	once    sync.Once
	closed  chan struct{} // nobody may read streams any longer
	over    chan struct{} // the ports are closed
	err     error         // of closing them
}

// listenGated opens the ports for gossip. It sets the configuration's port, if that was 0, and its
// transport.
func listenGated(c *memberlist.Config, g *gate.Gate, logger *log.Logger) (*gated, error) {
	own := &memberlist.NetTransportConfig{BindAddrs: []string{c.BindAddr}, BindPort: c.BindPort, Logger: logger}
	tries := 1
	if c.BindPort == 0 {
		tries = bindTries
	}
	var inner *memberlist.NetTransport
	var err error
	for range tries {
		if inner, err = memberlist.NewNetTransport(own); err == nil || !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("opening ports: %w", err)
	}
	if c.BindPort == 0 {
		c.BindPort = inner.GetAutoBindPort()
		c.AdvertisePort = c.BindPort
	}
	t := &gated{NetTransport: inner, streams: make(chan net.Conn), closed: make(chan struct{}), over: make(chan struct{})}
	c.Transport = t
	go t.pass(g)
	return t, nil
}

// pass lets connections in until Shutdown, and takes the rest until the ports are closed: who
// accepts waits until each is taken.
func (t *gated) pass(g *gate.Gate) {
	for {
		select {
		case nc := <-t.NetTransport.StreamCh():
			if nc = g.Enter(nc); nc == nil {
				continue
			}
			select {
			case t.streams <- nc:
			case <-t.closed:
				_ = nc.Close() // nobody reads it any longer
			}
		case <-t.over:
			return
		}
	}
}

// StreamCh implements memberlist.Transport.
func (t *gated) StreamCh() <-chan net.Conn { return t.streams }

// Shutdown implements memberlist.Transport.
func (t *gated) Shutdown() error {
	t.once.Do(func() {
		close(t.closed)
		t.err = t.NetTransport.Shutdown()
		close(t.over)
	})
	return t.err
}
