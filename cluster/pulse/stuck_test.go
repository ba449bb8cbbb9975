package pulse

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// When a connection is given up, with a heartbeat that was sent 50 ms ago and answered.
func TestStuck(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct {
		name  string
		r     retransmission
		stuck bool
	}{
		{"idle", retransmission{}, false},
		{"idle after failures", retransmission{fails: 3, since: 100 * ms, until: 1600 * ms}, false},
		{"its first packet has just left", retransmission{waits: true, since: 60 * ms, until: 200 * ms}, false},
		{"its first packet is late", retransmission{waits: true, since: 199 * ms, until: 500 * ms}, false},
		{"one attempt has failed, the next one is far", retransmission{waits: true, fails: 1, since: 100 * ms, until: 400 * ms}, true},
		{"one attempt has failed, the next one is near", retransmission{waits: true, fails: 1, since: 301 * ms, until: 400 * ms}, false},
		{"an attempt after the heartbeat", retransmission{waits: true, fails: 3, since: 40 * ms, until: 1600 * ms}, false},
		{"an attempt at about the same moment", retransmission{waits: true, fails: 3, since: 59 * ms, until: 1600 * ms}, false},
		{"an attempt just before it", retransmission{waits: true, fails: 3, since: 60 * ms, until: 1600 * ms}, true},
		{"the next attempt is overdue", retransmission{waits: true, fails: 3, since: 1700 * ms, until: 1600 * ms}, false},
	} {
		if got := c.r.stuck(50 * ms); got != c.stuck {
			t.Errorf("%s: stuck is %v", c.name, got)
		}
		if never := time.Since(time.Time{}); c.r.stuck(never) {
			t.Errorf("%s: stuck without a heartbeat", c.name)
		}
	}
}

// What is known to have gone both ways: at the end that asks its newest question, once that is answered; at the other one
// its answer, once the next question says that it came.
func TestProven(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	asker, asked := &Pulse{shared: New(Config{}, nil).shared, asks: true}, &Pulse{shared: New(Config{}, nil).shared, last: at(0)}
	never := at(5000).Sub(time.Time{})
	proven := func(step string, p *Pulse, want time.Duration) {
		t.Helper()
		if got := p.provenFor(at(5000)); got != want {
			t.Errorf("%s: proven for %v, want %v", step, got, want)
		}
	}
	proven("before all", asker, never)
	asked.hear(at(100), &nodev1.Ping{Number: 1})
	proven("the first question proves nothing of the way back", asked, never)
	asker.number, asker.sent = 2, at(350)
	asker.hear(at(360), &nodev1.Ping{Number: 1})
	proven("an old answer", asker, never)
	asked.hear(at(400), &nodev1.Ping{Number: 2, Heard: 0})
	proven("a question that has not heard the answer", asked, never)
	asker.hear(at(420), &nodev1.Ping{Number: 2})
	proven("the newest answer", asker, at(5000).Sub(at(350)))
	asked.hear(at(650), &nodev1.Ping{Number: 3, Heard: 2})
	proven("a question that has heard the answer of 400", asked, at(5000).Sub(at(400)))
}

// tcpPair returns both ends of a connection on loopback.
func tcpPair(t *testing.T) (mine, theirs *net.TCPConn) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	out, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	in, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = in.Close(), out.Close() })
	mine, _ = out.(*net.TCPConn)
	theirs, _ = in.(*net.TCPConn)
	return mine, theirs
}

// A connection that is stuck is given up, the other end learns of it at once, and no other connection is touched.
func TestUnstick(t *testing.T) {
	t.Parallel()
	p := &Pulse{shared: New(Config{}, nil).shared, Node: "n2"}
	stuck := retransmission{waits: true, fails: 2, since: 300 * time.Millisecond, until: 800 * time.Millisecond}
	state := func(r retransmission, known bool) func(*net.TCPConn) (retransmission, bool) {
		return func(*net.TCPConn) (retransmission, bool) { return r, known }
	}
	var why []error
	passed := 0
	add := func(of func(*net.TCPConn) (retransmission, bool)) (theirs *net.TCPConn) {
		mine, theirs := tcpPair(t)
		p.Lines.Add(&Line{Conn: mine, state: of, GiveUp: func(err error) { why = append(why, err) }, Passed: func() { passed++ }})
		return theirs
	}
	bad := add(state(stuck, true))
	unknown, good := add(state(stuck, false)), add(state(retransmission{}, true))
	p.unstick(100 * time.Millisecond)
	const want = `node "n2" answers heartbeats, but the system would send the rest again only in 500ms, after 2 attempts`
	if len(why) != 1 || why[0].Error() != want || p.shared.stuck.Load() != 1 {
		t.Errorf("given up: %v, counted %d", why, p.shared.stuck.Load())
	}
	if passed != 2 {
		t.Errorf("%d connections learn that packets pass, want 2", passed)
	}
	if _, err := bad.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the other end of it reads %v", err)
	}
	for _, end := range []*net.TCPConn{unknown, good} {
		if err := end.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := end.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the other end of a good one reads %v", err)
		}
	}
}
