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

// acceptRetry is how long Accept waits when the process cannot take a connection.
const acceptRetry = 50 * time.Millisecond

// Listen returns a listener whose connections the gate has accepted, each as a *Conn. Its Accept
// waits while the process has no free file descriptor. Connections of other networks than TCP are
// returned unchanged.
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
			l.g.lines.warn("the system accepts no connection", "error", err)
			l.g.relieve()
			l.rest()
			continue
		}
		if nc = l.g.Enter(nc); nc != nil {
			return nc, nil
		}
	}
}

// passes reports whether the error is temporary, so that a later Accept may succeed.
func passes(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM) ||
		errors.Is(err, syscall.ECONNABORTED)
}

// relieve closes the unauthenticated client that has been silent for the longest time.
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

// rest waits for a time in which file descriptors may become free, or until Close.
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

// Bounds of log lines about refused connections: unauthenticated clients must not fill a disk with
// them.
const (
	// TurnedAwayLines is how many lines are written at once for each reason; TurnedAwayEvery is the
	// time until the next one. That line has the number of those left out.
	TurnedAwayLines = 1
	TurnedAwayEvery = 5 * time.Second
)

// lines bounds the log lines that unauthenticated clients cause. mu guards the map.
type lines struct {
	log *slog.Logger
	mu  sync.Mutex
	of  map[string]*lograte.Lines // by reason
}

// warn logs why the gate closes connections, within the bounds.
func (l *lines) warn(why string, attrs ...any) {
	l.mu.Lock()
	of := l.of[why]
	if of == nil {
		of = &lograte.Lines{Burst: TurnedAwayLines, Every: TurnedAwayEvery}
		l.of[why] = of
	}
	l.mu.Unlock()
	if left, ok := of.Take(time.Now()); ok {
		l.log.Warn("connections are refused or closed", append(attrs, "why", why, "left_out", left)...)
	}
}
