package amqp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/internal/gate"
)

// Defaults of Config.
const (
	DefaultFrameMax      = 128 << 10
	DefaultChannelMax    = 2047
	DefaultHeartbeat     = 60 * time.Second
	DefaultPublishWindow = 8192
	DefaultWriteTimeout  = 30 * time.Second
	DefaultServeTimeout  = 3 * time.Second
)

// Config describes a Server. Zero values are the defaults.
type Config struct {
	Broker *broker.Broker // required
	Logger *slog.Logger   // nil: nothing is logged
	// TLS protects connections; nil: plain text.
	TLS *tls.Config
	// CertificateUser returns the user that a client's certificate stands for. TLS must have verified
	// the certificate. nil: mechanism EXTERNAL is not offered.
	CertificateUser func(*x509.Certificate) (string, error)
	// Version is the version sent to clients.
	Version string
	// Cluster is the cluster name sent to clients; "": quorate.
	Cluster string
	// FrameMax is the largest frame offered, in bytes; 0: 128 KiB, at least 4096.
	FrameMax uint32
	// ChannelMax is the highest channel number offered; 0: 2047.
	ChannelMax uint16
	// Heartbeat is the heartbeat interval offered; 0: 60 s. Clients may choose a shorter one, or none.
	Heartbeat time.Duration
	// Gate bounds the connections, and the time until connection.open, which is its LoginTimeout; nil:
	// a gate of this server's own with the defaults.
	Gate *gate.Gate
	// ServeTimeout bounds how long a new connection waits for a node that does not serve clients yet,
	// before it is closed; 0: 3 s. It must be shorter than the time that clients allow for a
	// handshake.
	ServeTimeout time.Duration
	// PublishWindow bounds the messages of one connection that await the queues' decisions; beyond it
	// the connection is not read. 0: 8192. Their bytes are bounded for each queue.
	PublishWindow int
	// Incoming bounds the memory of incomplete messages over all listeners that share it; nil: the
	// defaults of NewIncoming, for this server alone.
	Incoming *Incoming
	// WriteTimeout is how long a client may read nothing before its connection is cut off; 0: 30 s.
	WriteTimeout time.Duration
}

// Validate returns all faults at once.
func (c *Config) Validate() error {
	var errs []error
	if c.Broker == nil {
		errs = append(errs, errors.New("amqp: Broker is not set"))
	}
	if c.FrameMax != 0 && c.FrameMax < wire.MinFrameMax {
		errs = append(errs, fmt.Errorf("amqp: FrameMax = %d: want 0 (default) or at least %d", c.FrameMax, wire.MinFrameMax))
	}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"Heartbeat", int64(c.Heartbeat)},
		{"ServeTimeout", int64(c.ServeTimeout)},
		{"PublishWindow", int64(c.PublishWindow)},
		{"WriteTimeout", int64(c.WriteTimeout)},
	} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("amqp: %s = %d: want 0 (default) or more", n.name, n.value))
		}
	}
	if c.Broker != nil && c.Incoming != nil {
		if least := int64(c.Broker.MaxBodyBytes()) + IncomingSlack; c.Incoming.connectionBytes() < least {
			errs = append(errs, fmt.Errorf("amqp: Incoming allows a connection %d bytes: want at least %d, for the largest message", c.Incoming.connectionBytes(), least))
		}
	}
	return errors.Join(errs...)
}

// setDefault writes the default over a zero value.
func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}
