package gate

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/quorate/quorate/internal/lograte"
)

// acceptRetry is how long Accept waits when the process can take no connection.
const acceptRetry = 50 * time.Millisecond

// Listen returns a listener whose connections the gate has let in, each a *Conn. Its Accept waits while
// the process has no file descriptor for one more. Connections of other networks than TCP pass as they are.
func (g *Gate) Listen(l net.Listener) net.Listener {
	return &listener{Listener: l, g: g, closed: make(chan struct{})}
}

// listener adds a wait to Accept, which must end when the listener is closed; hence closed.
type listener struct {
	net.Listener
	g      *Gate
	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			if !passes(err) {
				return nil, err
			}
			l.g.lines.tell("none can be accepted", "error", err)
			l.g.relieve()
			l.rest()
			continue
		}
		if nc = l.g.Enter(nc); nc != nil {
			return nc, nil
		}
	}
}

// passes reports whether Accept may go better after a while.
func passes(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM) ||
		errors.Is(err, syscall.ECONNABORTED)
}

// relieve closes the unauthenticated client that is silent for the longest time.
func (g *Gate) relieve() {
	g.mu.Lock()
	g.stats.Scarce++
	v := g.oldest(g.busiest())
	if v != nil {
		g.remove(v)
		g.stats.CrowdedOut++
	}
	g.mu.Unlock()
	if v != nil {
		_ = v.TCPConn.Close()
	}
}

// rest waits for file descriptors to come free, or for Close.
func (l *listener) rest() {
	t := time.NewTimer(acceptRetry)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.closed:
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// Bounds of telling in the log why connections are turned away: unauthenticated clients must not fill a disk by it.
const (
	// TurnedAwayLines is how many lines there are at once for each reason, and TurnedAwayEvery after what
	// time there is one more. It says how many were left out.
	TurnedAwayLines = 1
	TurnedAwayEvery = 5 * time.Second
)

// lines are what is logged of unauthenticated clients. mu guards the map.
type lines struct {
	log *slog.Logger
	mu  sync.Mutex
	of  map[string]*lograte.Lines // by reason
}

// tell logs why connections are turned away, as far as there is a line.
func (l *lines) tell(why string, attrs ...any) {
	l.mu.Lock()
	of := l.of[why]
	if of == nil {
		of = &lograte.Lines{Burst: TurnedAwayLines, Every: TurnedAwayEvery}
		l.of[why] = of
	}
	l.mu.Unlock()
	if left, ok := of.Take(time.Now()); ok {
		l.log.Warn("connections are turned away", append(attrs, "why", why, "left_out", left)...)
	}
}
