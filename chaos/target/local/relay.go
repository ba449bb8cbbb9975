package local

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/chaos/target"
)

// relay passes on what nodes send each other: each is found at an address where this process listens,
// and knows the sender of packets by their port, and of connections by the process that has the other
// end. So each direction of a link can be cut and slowed separately, without privileges. All methods may be called
// concurrently.
type relay struct {
	nodes   []*chaos.Node
	closers []func() error
	working sync.WaitGroup
	ctx     context.Context // ends with the relay
	stop    context.CancelFunc

	mu      sync.Mutex
	ways    map[[2]string]*way
	gossip  map[string]*net.UDPConn // where a node's packets come from, by its id
	touched atomic.Uint64           // bytes and packets that waited or were dropped
}

// way is what one node sends another.
type way struct {
	mu     sync.Mutex
	cuts   int
	shape  target.Shape
	free   time.Time     // when the bytes before have passed
	joined chan struct{} // closed while the way is not cut
}

// newRelay listens for the nodes, at the addresses at which they are found.
func newRelay(nodes []*chaos.Node) (*relay, error) {
	ctx, stop := context.WithCancel(context.Background())
	r := &relay{nodes: nodes, ctx: ctx, stop: stop, ways: map[[2]string]*way{}, gossip: map[string]*net.UDPConn{}}
	for _, n := range nodes {
		if err := r.listen(ctx, n); err != nil {
			return nil, errors.Join(fmt.Errorf("local: relay for node %s: %w", n.ID, err), r.close())
		}
	}
	for _, n := range nodes {
		r.working.Go(func() { r.packets(n) })
	}
	return r, nil
}

// listen takes a node's addresses.
func (r *relay) listen(ctx context.Context, n *chaos.Node) error {
	var lc net.ListenConfig
	for at, to := range map[string]string{n.PeerAt: n.Peer, n.GossipAt: n.Gossip} {
		l, err := lc.Listen(ctx, "tcp", at)
		if err != nil {
			return err
		}
		r.closers = append(r.closers, l.Close)
		r.working.Go(func() { r.accept(l, n, to) })
	}
	at, err := net.ResolveUDPAddr("udp", n.GossipAt)
	if err != nil {
		return err
	}
	c, err := net.ListenUDP("udp", at)
	if err != nil {
		return err
	}
	r.closers, r.gossip[n.ID] = append(r.closers, c.Close), c
	return nil
}

// close ends all listeners and connections.
func (r *relay) close() error {
	r.stop()
	var errs []error
	for _, c := range r.closers {
		errs = append(errs, c())
	}
	r.working.Wait()
	return errors.Join(errs...)
}

// way returns what one node sends another; a sender that is no node is on no way.
func (r *relay) way(from, to string) *way {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.ways[[2]string{from, to}]
	if w == nil {
		w = &way{joined: make(chan struct{})}
		close(w.joined)
		r.ways[[2]string{from, to}] = w
	}
	return w
}

// cut lets nothing through, until the way was joined as often as it was cut.
func (r *relay) cut(from, to string, by int) {
	w := r.way(from, to)
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.cuts
	w.cuts = max(0, w.cuts+by)
	switch {
	case before == 0 && w.cuts > 0:
		w.joined = make(chan struct{})
	case before > 0 && w.cuts == 0:
		close(w.joined)
	}
}

// shape changes what a way does to what is sent from now on.
func (r *relay) shape(from, to string, s target.Shape) {
	w := r.way(from, to)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shape = s
}

// due returns when so many bytes that are sent now arrive, and whether the way is whole.
func (w *way) due(bytes int) (at time.Time, joined chan struct{}, whole bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at = time.Now().Add(w.shape.Delay)
	if w.shape.Jitter > 0 {
		at = at.Add(time.Duration(rand.Int64N(int64(w.shape.Jitter))))
	}
	if w.shape.BytesPerSec > 0 {
		if now := time.Now(); w.free.Before(now) {
			w.free = now
		}
		w.free = w.free.Add(time.Duration(bytes) * time.Second / time.Duration(w.shape.BytesPerSec))
		at = at.Add(time.Until(w.free))
	}
	return at, w.joined, w.cuts == 0 && w.shape == target.Shape{}
}

// accept takes connections for a node until the listener is closed.
func (r *relay) accept(l net.Listener, n *chaos.Node, to string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		r.working.Go(func() { r.connection(c, n, to) })
	}
}

// connection passes a connection on in both directions. Who opened it is not known if it has ended
// meanwhile.
func (r *relay) connection(c net.Conn, n *chaos.Node, to string) {
	defer c.Close() //nolint:errcheck // it is over
	from, err := caller(r.nodes, c)
	if err != nil {
		return
	}
	d := net.Dialer{Timeout: time.Second}
	there, err := d.DialContext(r.ctx, "tcp", to)
	if err != nil {
		return // as if the node refused it
	}
	defer there.Close() //nolint:errcheck // it is over
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	context.AfterFunc(ctx, func() { _ = c.Close(); _ = there.Close() })
	var passing sync.WaitGroup
	passing.Go(func() { r.pass(ctx, cancel, c, there, r.way(from, n.ID)) })
	passing.Go(func() { r.pass(ctx, cancel, there, c, r.way(n.ID, from)) })
	passing.Wait()
}

// What is under way at a time: so many reads of at most so many bytes; who sends more waits.
const (
	underWay  = 256
	readBytes = 32 << 10
)

// chunk is what was read at once.
type chunk struct {
	data   []byte
	at     time.Time
	joined chan struct{}
}

// pass carries one direction. What a cut holds back arrives when the way is joined, as TCP sends again
// what was lost; the end of the connection waits behind it.
func (r *relay) pass(ctx context.Context, end func(), src, dst net.Conn, w *way) {
	held := make(chan chunk, underWay)
	r.working.Go(func() {
		defer end()
		for h := range held {
			if !until(ctx, h, w) {
				return
			}
			if _, err := dst.Write(h.data); err != nil {
				return
			}
		}
	})
	defer close(held)
	for {
		data := make([]byte, readBytes)
		n, err := src.Read(data)
		if n > 0 {
			at, joined, whole := w.due(n)
			if !whole {
				r.touched.Add(uint64(n))
			}
			select {
			case held <- chunk{data[:n], at, joined}:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// until waits until a chunk is due and the way is joined, and reports whether there is still somebody
// to write to.
func until(ctx context.Context, h chunk, w *way) bool {
	t := time.NewTimer(time.Until(h.at))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return false
	}
	for joined := h.joined; ; {
		select {
		case <-joined:
		case <-ctx.Done():
			return false
		}
		w.mu.Lock()
		again := w.joined
		whole := w.cuts == 0
		w.mu.Unlock()
		if whole {
			return true
		}
		joined = again // cut once more
	}
}

// packets passes on the packets that are for a node, from the address at which their sender is found.
func (r *relay) packets(n *chaos.Node) {
	to, err := net.ResolveUDPAddr("udp", n.Gossip)
	if err != nil {
		return
	}
	data := make([]byte, 1<<16)
	for {
		size, at, err := r.gossip[n.ID].ReadFromUDP(data)
		if err != nil {
			return
		}
		from := r.sender(at)
		if from == "" {
			continue
		}
		w := r.way(from, n.ID)
		due, _, whole := w.due(size)
		w.mu.Lock()
		lost := w.cuts > 0
		w.mu.Unlock()
		if !whole {
			r.touched.Add(1)
		}
		if lost {
			continue
		}
		packet := append([]byte(nil), data[:size]...)
		send := func() { _, _ = r.gossip[from].WriteToUDP(packet, to) } // a packet may be lost
		if wait := time.Until(due); wait > 0 {
			time.AfterFunc(wait, send)
		} else {
			send()
		}
	}
}

// sender returns the node whose gossip comes from this address.
func (r *relay) sender(at *net.UDPAddr) string {
	for _, n := range r.nodes {
		if n.Gossip == at.String() {
			return n.ID
		}
	}
	return ""
}
