package liveness

import (
	"context"
	"net"
	"sync"
	"testing"
)

// relay passes connections to one node on. Each direction can be held up, as by a
// partition: connections stay and nothing moves.
type relay struct {
	address string
	all     sync.WaitGroup

	mu     sync.Mutex
	target string
	moves  *sync.Cond
	held   [2]bool // toward the target, back
	closed bool
	conns  []net.Conn
}

const (
	toward = iota
	back
)

func newRelay(t testing.TB, target string) *relay {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{address: l.Addr().String(), target: target}
	r.moves = sync.NewCond(&r.mu)
	r.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.all.Go(func() { r.join(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		r.mu.Lock()
		r.closed = true
		conns := r.conns
		r.moves.Broadcast()
		r.mu.Unlock()
		for _, c := range conns {
			_ = c.Close()
		}
		r.all.Wait()
	})
	return r
}

func (r *relay) join(in net.Conn) {
	r.mu.Lock()
	target := r.target
	r.mu.Unlock()
	out, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", target)
	if err != nil {
		_ = in.Close()
		return
	}
	r.mu.Lock()
	r.conns = append(r.conns, in, out)
	closed := r.closed
	r.mu.Unlock()
	if closed {
		_, _ = in.Close(), out.Close()
	}
	r.all.Go(func() { r.move(in, out, back) })
	r.move(out, in, toward)
}

func (r *relay) move(to, from net.Conn, direction int) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		r.mu.Lock()
		for r.held[direction] && !r.closed {
			r.moves.Wait()
		}
		r.mu.Unlock()
		if n > 0 {
			if _, werr := to.Write(b[:n]); werr != nil {
				err = werr
			}
		}
		if err != nil {
			_, _ = from.Close(), to.Close()
			return
		}
	}
}

func (r *relay) hold(direction int, held bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[direction] = held
	r.moves.Broadcast()
}

// moved sends new connections elsewhere.
func (r *relay) moved(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = target
}
