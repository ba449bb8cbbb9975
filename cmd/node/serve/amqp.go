package serve

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"

	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/internal/gate"
	"github.com/quorate/quorate/management"
)

// serveAMQP opens one listener for AMQP, once this node serves clients; an empty address is none. The listeners with and
// without TLS share the bound of what is being received.
//
// Until then connections are refused: a client that knows several nodes goes to another one at once. An accepted one would
// have to wait for this node, because clients take an end of the handshake for a wrong password.
func (n *node) serveAMQP(ctx context.Context, key, address string, secure *tls.Config) error {
	if address == "" {
		return nil
	}
	if err := usable(ctx, key, address); err != nil {
		return err
	}
	c := amqp.Config{
		Gate: n.gates.clients, Broker: n.broker, Logger: n.log, TLS: secure, Version: n.version, Cluster: n.cfg.Cluster.Name,
		Incoming: n.incomingAMQP,
	}
	if secure != nil {
		c.CertificateUser = certificateUser(n.cfg.TLS.Client.LoginFrom)
	}
	if err := c.Validate(); err != nil {
		return err
	}
	s := amqp.New(c)
	n.amqp = append(n.amqp, s)
	go func() {
		if err := serveWhenServing(context.WithoutCancel(ctx), s, key, address, n.log); err != nil {
			n.failed <- err
		}
	}()
	return nil
}

// serveWhenServing opens the listener when the node serves clients, and serves them until the server is shut down.
func serveWhenServing(ctx context.Context, s *amqp.Server, key, address string, log *slog.Logger) error {
	if !s.AwaitServing() {
		return nil
	}
	l, err := listen(ctx, key, address)
	if err != nil {
		return err
	}
	log.Info("AMQP is served", "listener", key, "address", address)
	if err := s.Serve(l); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// usable reports why nobody could listen at an address.
func usable(ctx context.Context, key, address string) error {
	l, err := listen(ctx, key, address)
	if err != nil {
		return err
	}
	return l.Close()
}

// serveManagement serves the HTTP API behind the clients' gate, which counts its connections until
// they log in.
func (n *node) serveManagement(ctx context.Context) error {
	address := n.cfg.Listen.Management
	if address == "" {
		return nil
	}
	l, err := listen(ctx, "listen.management", address)
	if err != nil {
		return err
	}
	var secure *tls.Config
	if n.clientTLS != nil {
		secure = n.forClients()
	}
	n.keepSettings()
	n.operators = management.New(management.Config{
		Broker: n.broker, Node: n.cfg.NodeID, Version: n.version, Cluster: n.cfg.Cluster.Name, Logger: n.log, Facts: n.facts(), Stats: n.stats,
	})
	n.management = probed(n.operators)
	n.management.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return management.ConnContext(gate.Context(ctx, c), c)
	}
	n.serveHTTP("listen.management", n.management, n.gates.clients.Listen(l), secure)
	return nil
}
