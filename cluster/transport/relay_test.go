package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// relay passes connections on, until it is frozen: then it keeps them open and moves
// nothing, like a process that was stopped.
type relay struct {
	address string
	target  string
	mu      sync.Mutex
	moves   *sync.Cond
	frozen  bool
	conns   []net.Conn
	closed  bool
}

func newRelay(t *testing.T, target string) *relay {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{address: l.Addr().String(), target: target}
	r.moves = sync.NewCond(&r.mu)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { r.join(c, &all) })
		}
	})
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		r.closed, r.frozen = true, false
		conns := r.conns
		r.moves.Broadcast()
		r.mu.Unlock()
		for _, c := range conns {
			_ = c.Close()
		}
		all.Wait()
	})
	return r
}

func (r *relay) join(in net.Conn, all *sync.WaitGroup) {
	out, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", r.target)
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
	all.Go(func() { r.move(out, in) })
	r.move(in, out)
}

func (r *relay) move(to, from net.Conn) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		r.mu.Lock()
		for r.frozen {
			r.moves.Wait()
		}
		r.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				_ = from.Close()
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				_ = from.Close()
			}
			_ = to.Close()
			return
		}
	}
}

// cut closes what it has passed on.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		_ = c.Close()
	}
}

func (r *relay) freeze() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = true
}

func (r *relay) thaw() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = false
	r.moves.Broadcast()
}
