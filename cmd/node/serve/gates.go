package serve

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/quorate/quorate/cluster/gossip"
	"github.com/quorate/quorate/cmd/node/config"
	"github.com/quorate/quorate/internal/gate"
)

const (
	// maxProbes bounds the connections to listen.http and listen.debug, which need no login, and
	// maxProbesPerAddress those of one address.
	maxProbes, maxProbesPerAddress = 256, 128
	// maxCallers bounds the connections to listen.peer on which no node has identified itself.
	maxCallers = 256
	// maxPeers bounds all connections to listen.peer.
	maxPeers = 4096

	// probeBytes bounds the headers of an HTTP request.
	probeBytes = 16 << 10
	// probeTime bounds reading a request, answerTime writing the answer, and restTime the time between
	// two requests.
	probeTime, answerTime, restTime = 10 * time.Second, time.Minute, 2 * time.Minute
)

// gates bound the connections to a node: of clients over all protocols, of probes, of other nodes,
// and of their gossip. They share no bounds.
type gates struct{ clients, probes, peers, gossip *gate.Gate }

// newGates makes the gates with bounds of their own, so that a flood of clients keeps out neither
// probes nor other nodes. Probes never log in, hence no time-out.
func newGates(cfg *config.Config, log *slog.Logger) gates {
	return gates{
		clients: gate.New(gate.Config{
			Name: "clients", Logger: log, MaxConnections: cfg.Limits.Connections, MaxUnauthenticated: cfg.Limits.Unauthenticated,
			MaxPerAddress: cfg.Limits.UnauthenticatedPerAddress, LoginTimeout: cfg.Timeouts.Login,
		}),
		probes: gate.New(gate.Config{
			Name: "probes", Logger: log, MaxConnections: maxProbes, MaxUnauthenticated: maxProbes, MaxPerAddress: maxProbesPerAddress,
			LoginTimeout: -1, Own: true,
		}),
		peers: gate.New(gate.Config{
			Name: "peers", Logger: log, MaxConnections: maxPeers, MaxUnauthenticated: maxCallers, MaxPerAddress: maxCallers, Own: true,
		}),
		gossip: gossip.NewGate(log),
	}
}

// figures are the figures of all gates, by name.
func (g gates) figures() map[string]gate.Stats {
	return map[string]gate.Stats{"clients": g.clients.Stats(), "probes": g.probes.Stats(), "peers": g.peers.Stats(), "gossip": g.gossip.Stats()}
}

// listenPeers opens the listener for other nodes.
func (n *node) listenPeers(ctx context.Context) (net.Listener, error) {
	l, err := listen(ctx, "listen.peer", n.cfg.Listen.Peer)
	if err != nil {
		return nil, err
	}
	return n.gates.peers.Listen(l), nil
}

// probed returns an HTTP server with a time limit on everything.
func probed(h http.Handler) *http.Server {
	return &http.Server{Handler: h, MaxHeaderBytes: probeBytes, ReadHeaderTimeout: probeTime, ReadTimeout: probeTime, WriteTimeout: answerTime, IdleTimeout: restTime}
}
