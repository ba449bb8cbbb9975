package gate

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"
)

// acceptRetry is how long Accept waits when the process can take no connection.
const acceptRetry = 50 * time.Millisecond

// Listen returns a listener whose connections the gate has let in, each a *Conn. Its Accept waits while
// the process has no file descriptor for one more. Connections of other networks than TCP pass as they are.
func (g *Gate) Listen(l net.Listener) net.Listener {
	return &listener{Listener: l, g: g, closed: make(chan struct{})}
}

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

// passes tells whether Accept may go better after a while.
func passes(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM) ||
		errors.Is(err, syscall.ECONNABORTED)
}

// relieve closes the stranger that is silent for the longest time.
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

// linesEvery is the time between two lines of the log that say the same.
const linesEvery = 5 * time.Second

// lines are what is logged of strangers, who must not fill a disk by it. mu guards the maps.
type lines struct {
	log *slog.Logger
	mu  sync.Mutex
	at  map[string]time.Time
	out map[string]int // left out since
}

// tell logs why connections are turned away, unless that was just logged.
func (l *lines) tell(why string, attrs ...any) {
	now := time.Now()
	l.mu.Lock()
	if l.at == nil {
		l.at, l.out = map[string]time.Time{}, map[string]int{}
	}
	if at, told := l.at[why]; told && now.Sub(at) < linesEvery {
		l.out[why]++
		l.mu.Unlock()
		return
	}
	left := l.out[why]
	l.at[why], l.out[why] = now, 0
	l.mu.Unlock()
	l.log.Warn("connections are turned away", append(attrs, "why", why, "left_out", left)...)
}
