package workload

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/internal/wait"
)

const (
	// heartbeat is that of connections: a node that stands still is given up after three of them.
	heartbeat = 2 * time.Second
	// dialTimeout bounds a connection's handshake. A node that has just started lets it wait for
	// 3 s (EX-16).
	dialTimeout = 5 * time.Second
	// redialEvery is the wait between two tries.
	redialEvery = 100 * time.Millisecond
	// patience bounds the first connection or consumer of a client: the cluster was well before. One that knows a single
	// node misses it for longer than the node is away when that comes back with other addresses again and again, each
	// time before caches of the DNS have forgotten the one before.
	patience = 3 * time.Minute
	// closeTimeout bounds the goodbye to a node.
	closeTimeout = 2 * time.Second
)

// dialer connects to nodes by AMQP, as programs do that come back by themselves.
type dialer struct {
	addresses             []string
	user, password, vhost string
	name                  string // for lists of connections
	next                  int    // of addresses
	once                  bool   // it was connected
}

// amqpConn is a connection with its one channel.
type amqpConn struct {
	*amqp.Channel
	conn *amqp.Connection
	tcp  net.Conn
}

// connect tries the nodes one after another until one takes the connection, or ctx ends.
func (d *dialer) connect(ctx context.Context) (*amqpConn, error) {
	if len(d.addresses) == 0 {
		return nil, errors.New("workload: no node is reached by AMQP: its address is not known")
	}
	trying := ctx
	if !d.once {
		var cancel context.CancelFunc
		trying, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	for {
		address := d.addresses[d.next%len(d.addresses)]
		l, err := d.dial(address)
		if err == nil {
			d.once = true
			return l, nil
		}
		d.next++
		if wait.For(trying, redialEvery) != nil {
			return nil, fmt.Errorf("workload: no AMQP connection to %s: %w", address, err)
		}
	}
}

// dial opens a connection to one node, and a channel.
func (d *dialer) dial(address string) (*amqpConn, error) {
	l := &amqpConn{}
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName("chaos " + d.name)
	var err error
	l.conn, err = amqp.DialConfig("amqp://"+address, amqp.Config{
		Vhost: d.vhost, SASL: []amqp.Authentication{&amqp.PlainAuth{Username: d.user, Password: d.password}}, Heartbeat: heartbeat, Properties: properties,
		Dial: func(network, address string) (net.Conn, error) {
			var err error
			l.tcp, err = amqp.DefaultDial(dialTimeout)(network, address)
			return l.tcp, err
		},
	})
	if err != nil {
		return nil, err
	}
	if l.Channel, err = l.conn.Channel(); err != nil {
		l.cut()
		return nil, err
	}
	return l, nil
}

// leave closes the connection in order.
func (l *amqpConn) leave() { _ = l.conn.CloseDeadline(time.Now().Add(closeTimeout)) } // or it is lost already

// cut ends the TCP connection, as a program does that crashes: with a reset, and without a word.
func (l *amqpConn) cut() {
	if tcp, is := l.tcp.(*net.TCPConn); is {
		_ = tcp.SetLinger(0) // it ends in any case
	}
	_ = l.tcp.Close()
	_ = l.conn.CloseDeadline(time.Now().Add(closeTimeout)) // ends the library's goroutines
}

// table converts arguments that are the same in both protocols.
func table(t map[string]any) amqp.Table {
	if t == nil {
		return nil
	}
	out := make(amqp.Table, len(t))
	for name, value := range t {
		if n, is := value.(int); is {
			value = int64(n)
		}
		out[name] = value
	}
	return out
}
