package client

import (
	"context"
	"errors"
	"io"
	"maps"
	"sync"
	"sync/atomic"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// connectionHeader is the metadata that names the connection of a call.
const connectionHeader = "quorate-connection"

// connection owns the client's exclusive queues: a stream to one node that all calls name. It is
// opened when the first exclusive queue is declared.
type connection struct {
	opening sync.Mutex // held while a connection is being opened
	mu      sync.Mutex
	lost    chan struct{} // closed when the connection has ended; nil: never opened

	// metadata goes with every call and stream.
	metadata atomic.Pointer[map[string]string]
}

// ConnectionLost returns a channel that is closed when the connection that owns the client's
// exclusive queues has ended, and the queues with it: its node was lost, or the client was closed.
// It is nil before the first exclusive queue is declared. Declaring another exclusive queue opens a
// new connection.
func (c *Client) ConnectionLost() <-chan struct{} {
	c.connection.mu.Lock()
	defer c.connection.mu.Unlock()
	return c.connection.lost
}

// open reports whether there is a connection that has not ended.
func (x *connection) open() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lost == nil {
		return false
	}
	select {
	case <-x.lost:
		return false
	default:
		return true
	}
}

// connect opens the connection unless there is one.
func (c *Client) connect(ctx context.Context) error {
	x := &c.connection
	x.opening.Lock()
	defer x.opening.Unlock()
	if x.open() {
		return nil
	}
	return c.call(ctx, func(call context.Context, n *node) error {
		stream, opened, err := c.openConnection(call, n)
		if err != nil {
			return err
		}
		lost := make(chan struct{})
		x.mu.Lock()
		x.lost = lost
		x.mu.Unlock()
		with := maps.Clone(map[string]string(c.cfg.login()))
		with[connectionHeader] = opened
		x.metadata.Store(&with)
		c.done.Go(func() {
			defer close(lost)
			defer stream.end()
			var err error
			for err == nil {
				_, err = stream.Recv()
			}
			if c.ctx.Err() == nil {
				c.cfg.Logger.Warn("the client's exclusive queues are lost with their connection", "address", n.address, "error", fromGRPC(err))
			}
			x.metadata.CompareAndSwap(&with, nil)
		})
		return nil
	})
}

// heldStream is a Connect stream that outlives the call that opened it.
type heldStream struct {
	brokerv1.Broker_ConnectClient
	end func()
}

// openConnection opens the stream; call bounds only the opening.
func (c *Client) openConnection(call context.Context, n *node) (*heldStream, string, error) {
	life, end := context.WithCancel(c.ctx)
	use, release, err := n.hold(life)
	if err != nil {
		end()
		return nil, "", err
	}
	stop := context.AfterFunc(call, end)
	s := &heldStream{end: func() { end(); release() }}
	s.Broker_ConnectClient, err = n.broker.Connect(use, &brokerv1.ConnectRequest{})
	var first *brokerv1.ConnectResponse
	if err == nil {
		first, err = s.Recv()
	}
	if err == nil && !stop() {
		err = call.Err()
	}
	if err != nil {
		s.end()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, "", err
	}
	return s, first.GetConnection(), nil
}
