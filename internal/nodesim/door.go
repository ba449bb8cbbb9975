package nodesim

import (
	"net"
	"sync"
)

// door guards what other nodes send to a node. While it is shut, all of that waits, and the connections stay: the
// node can send but not receive. Its zero value is open; for concurrent use.
type door struct {
	mu   sync.Mutex
	gate chan struct{} // closed when the door opens; nil: it is open
}

// shut makes all wait that comes from now on.
func (d *door) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gate == nil {
		d.gate = make(chan struct{})
	}
}

// open lets all go on.
func (d *door) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gate != nil {
		close(d.gate)
		d.gate = nil
	}
}

// pass waits until the door is open, or closed is.
func (d *door) pass(closed <-chan struct{}) {
	d.mu.Lock()
	gate := d.gate
	d.mu.Unlock()
	if gate == nil {
		return
	}
	select {
	case <-gate:
	case <-closed:
	}
}

// guarded is a listener behind a door.
type guarded struct {
	net.Listener
	door *door
}

// Accept implements net.Listener.
func (g guarded) Accept() (net.Conn, error) {
	c, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &guardedConn{Conn: c, door: g.door, closed: make(chan struct{})}, nil
}

// guardedConn is a connection whose reads pass the door.
type guardedConn struct {
	net.Conn
	door   *door
	once   sync.Once
	closed chan struct{}
}

// Read implements net.Conn.
func (c *guardedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.door.pass(c.closed)
	return n, err
}

// Close implements net.Conn.
func (c *guardedConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
