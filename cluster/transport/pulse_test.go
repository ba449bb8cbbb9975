package transport

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// heartbeatLog is the Heartbeats of a node in a test. mu guards what is below it.
type heartbeatLog struct {
	mu   sync.Mutex
	says Heartbeat
	got  map[Peer]Heartbeat
	late []id.NodeID
}

func (t *heartbeatLog) Heartbeat(id.NodeID) Heartbeat {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.says
}

// news lets the node say something else.
func (t *heartbeatLog) news(b Heartbeat) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.says = b
}

func (t *heartbeatLog) Late(n id.NodeID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.late = append(t.late, n)
}

func (t *heartbeatLog) HandleHeartbeat(from Peer, b Heartbeat) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.got == nil {
		t.got = map[Peer]Heartbeat{}
	}
	t.got[from] = b
}

func (t *heartbeatLog) heard(from Peer, b Heartbeat) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.got[from] == b
}

func (t *heartbeatLog) lateFrom(n id.NodeID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Contains(t.late, n)
}

// One connection of a pair carries what both ends report about themselves, with TLS and without.
func TestHeartbeatsReachBothEnds(t *testing.T) {
	ca := newAuthority(t, "ca")
	for _, secure := range []bool{false, true} {
		conf1, conf2 := testConfig("n1", 1), testConfig("n2", 3)
		if secure {
			conf1, _ = secureConfig(t, "n1", ca)
			conf2, _ = secureConfig(t, "n2", ca)
			conf2.Epoch = 3
		}
		beats1, beats2 := &heartbeatLog{says: Heartbeat{Led: 7, LedHash: 8}}, &heartbeatLog{says: Heartbeat{Led: 9, Stalled: true}}
		conf1.Heartbeats, conf2.Heartbeats = beats1, beats2
		conf1.HeartbeatEvery, conf2.HeartbeatEvery = 10*time.Millisecond, 10*time.Millisecond
		a, b := start(t, conf1), start(t, conf2)
		meet(a, b)
		until(t, "both are told", func() bool {
			return beats1.heard(Peer{Node: "n2", Epoch: 3}, beats2.says) && beats2.heard(Peer{Node: "n1", Epoch: 1}, beats1.says)
		})
		connected(t, a, b)
		connected(t, b, a)
		until(t, "both have answered", func() bool {
			d1, up1 := a.Silent("n2")
			d2, up2 := b.Silent("n1")
			return up1 && up2 && d1 < time.Second && d2 < time.Second
		})
	}
}

// What a node has to say at once does not wait for the next heartbeat, whoever of the two asks, and
// the heartbeat that brings it leaves none outstanding.
func TestHeartbeatsAreSentAtOnce(t *testing.T) {
	conf1, conf2 := testConfig("n1", 1), testConfig("n2", 3)
	beats1, beats2 := &heartbeatLog{}, &heartbeatLog{}
	conf1.Heartbeats, conf2.Heartbeats = beats1, beats2
	conf1.HeartbeatEvery, conf2.HeartbeatEvery = time.Hour, time.Hour
	a, b := start(t, conf1), start(t, conf2)
	meet(a, b)
	connected(t, a, b)
	connected(t, b, a)
	until(t, "both have been heard", func() bool {
		return beats1.heard(Peer{Node: "n2", Epoch: 3}, Heartbeat{}) && beats2.heard(Peer{Node: "n1", Epoch: 1}, Heartbeat{})
	})
	for _, news := range []Heartbeat{{Stalled: true}, {Led: 1, LedHash: 2}} {
		beats1.news(news)
		a.Say()
		until(t, "the one that is asked is told", func() bool { return beats2.heard(Peer{Node: "n1", Epoch: 1}, news) })
		beats2.news(news)
		b.Say()
		until(t, "the one that asks is told", func() bool { return beats1.heard(Peer{Node: "n2", Epoch: 3}, news) })
	}
	if d, up := a.Silent("n2"); d != 0 || !up {
		t.Errorf("the one that asks has been without an answer for %v, connection is up: %v", d, up)
	}
	if d, up := b.Silent("n1"); d != 0 || !up {
		t.Errorf("the one that is asked has been without an answer for %v, connection is up: %v", d, up)
	}
}

// Whichever direction is held up, both ends learn of it within one period of each other.
func TestHeartbeatsJudgeBothDirections(t *testing.T) {
	const period = 100 * time.Millisecond
	for _, c := range []struct {
		name      string
		hears     bool // the one that is asked hears the asker
		heardBack bool
	}{
		{name: "both ways", hears: true, heardBack: true},
		{name: "answers are lost", hears: true},
		{name: "questions are lost", heardBack: true},
		{name: "silence"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &local{config: Config{HeartbeatEvery: period}}
			asker, asked := &pulse{l: m, asks: true}, &pulse{l: m}
			now := time.Unix(1000, 0)
			begin := now
			asked.last = now
			for n := uint64(1); n <= 8; n++ {
				good := n <= 3
				asker.number = n
				if asker.since.IsZero() {
					asker.since = now
				}
				if good || c.hears {
					asked.hear(now, &nodev1.Ping{Number: n, Heard: asker.heard})
					if good || c.heardBack {
						asker.hear(now, &nodev1.Ping{Number: n})
					}
				}
				now = now.Add(period)
			}
			want := 5 * period // the fourth ping, at 300 ms, is the first one that fails; it is 800 ms
			if c.hears && c.heardBack {
				want = 0
			}
			if d := asker.unanswered(now, begin); d != want {
				t.Errorf("the asker has been without an answer for %v, want %v", d, want)
			}
			if d := asked.unanswered(now, begin); d != want {
				t.Errorf("the one that is asked has been without an answer for %v, want %v", d, want)
			}
		})
	}
}

// A delay is over with the next heartbeat that goes both ways.
func TestHeartbeatsComeBack(t *testing.T) {
	m := &local{config: Config{HeartbeatEvery: 100 * time.Millisecond}}
	p := &pulse{l: m}
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	for _, b := range []struct {
		ms            int
		number, heard uint64
		unanswered    time.Duration
	}{
		{0, 1, 0, 0},
		{100, 2, 1, 0},
		{200, 3, 1, 100 * time.Millisecond}, // the answer of 100 is missing
		{300, 4, 1, 200 * time.Millisecond},
		{400, 5, 3, 100 * time.Millisecond}, // those up to 200 came; the one of 300 did not
		{500, 6, 5, 0},
	} {
		if ok := p.hear(at(b.ms), &nodev1.Ping{Number: b.number, Heard: b.heard}); ok != (b.unanswered == 0) {
			t.Errorf("after heartbeat %d: %v", b.number, ok)
		}
		if d := p.unanswered(at(b.ms), at(0)); d != b.unanswered {
			t.Errorf("after heartbeat %d one has been missing for %v, want %v", b.number, d, b.unanswered)
		}
	}
	if d := p.unanswered(at(5000), at(4000)); d != 900*time.Millisecond {
		t.Errorf("a connection of 4000 ms has been without an answer for %v at 5000", d)
	}
}

// A peer that freezes is reported at once, at both ends, and both drop their connections.
func TestHeartbeatsOfFrozenPeer(t *testing.T) {
	beats1, beats2 := &heartbeatLog{}, &heartbeatLog{}
	conf1, conf2 := testConfig("n1", 1), testConfig("n2", 1)
	conf1.Heartbeats, conf2.Heartbeats = beats1, beats2
	for _, c := range []*Config{&conf1, &conf2} {
		c.HeartbeatEvery, c.PingTimeout, c.PingEvery = 20*time.Millisecond, 300*time.Millisecond, time.Hour
	}
	a, b := start(t, conf1), start(t, conf2)
	relay1, relay2 := newRelay(t, a.address), newRelay(t, b.address)
	a.SetPeer("n2", relay2.address)
	b.SetPeer("n1", relay1.address)
	connected(t, a, b)
	connected(t, b, a)
	until(t, "the one that is asked is asked in this connection", func() bool {
		pc, err := b.connection("n1")
		p := b.pulse("n1")
		p.mu.Lock()
		defer p.mu.Unlock()
		return err == nil && !p.last.Before(pc.began) // before that, nothing is held against the peer
	})
	relay1.freeze()
	relay2.freeze()
	until(t, "both are told", func() bool { return beats1.lateFrom("n2") && beats2.lateFrom("n1") })
	until(t, "both drop their connections", func() bool {
		_, up1 := a.Connected("n2")
		_, up2 := b.Connected("n1")
		return !up1 && !up2
	})
	relay1.thaw()
	relay2.thaw()
	connected(t, a, b)
	connected(t, b, a)
}

// A peer that falls silent after its last heartbeat and before the first one of a connection is
// found, without the connection's own pings.
func TestHeartbeatsThatNeverCome(t *testing.T) {
	conf1, conf2 := testConfig("n1", 1), testConfig("n2", 1)
	conf1.HeartbeatEvery, conf1.PingEvery = time.Hour, time.Hour // it asks once per connection
	conf2.HeartbeatEvery, conf2.PingTimeout, conf2.PingEvery = 20*time.Millisecond, 300*time.Millisecond, time.Hour
	a, b := start(t, conf1), start(t, conf2)
	a.SetPeer("n2", b.address)
	p := b.pulse("n1")
	until(t, "the one that is asked is asked", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.conn != nil && p.number == 2 // the second ping reports what the first one measured
	})
	p.mu.Lock()
	last := p.last
	p.mu.Unlock()
	b.SetPeer("n1", a.address)
	connected(t, b, a)
	var pc *peerConn
	until(t, "there is a connection", func() (up bool) {
		var err error
		pc, err = b.connection("n1")
		return err == nil
	})
	if !last.Before(pc.began) {
		t.Fatal("the connection began before the heartbeat")
	}
	select {
	case <-pc.ctx.Done():
	case <-time.After(time.Minute):
		t.Fatal("the silence is never noticed")
	}
	if err := context.Cause(pc.ctx); !strings.Contains(err.Error(), "did not answer within") {
		t.Errorf("the connection ended for another reason: %v", err)
	}
}

// Nothing is held against a peer that has never asked: it may have no way here.
func TestHeartbeatsOfPeerWithoutWay(t *testing.T) {
	conf1, conf2 := testConfig("n1", 1), testConfig("n2", 1)
	conf2.HeartbeatEvery, conf2.PingTimeout, conf2.PingEvery = time.Millisecond, time.Millisecond, time.Hour
	a, b := start(t, conf1), start(t, conf2)
	b.SetPeer("n1", a.address)
	connected(t, b, a)
	pc, err := b.connection("n1")
	if err != nil {
		t.Fatal(err)
	}
	p := b.pulse("n1")
	until(t, "a heartbeat is missing for too long", func() bool { return p.unanswered(time.Now(), pc.began) > conf2.PingTimeout })
	b.overdue(p)
	if err := pc.ctx.Err(); err != nil {
		t.Errorf("the connection ended: %v", context.Cause(pc.ctx))
	}
	// The connection of another process, which is gone, proves nothing either.
	one, other := net.Pipe()
	t.Cleanup(func() { _, _ = one.Close(), other.Close() })
	p.mu.Lock()
	p.conn, p.peer.Epoch = one, 0
	p.mu.Unlock()
	b.overdue(p)
	if err := pc.ctx.Err(); err != nil {
		t.Errorf("the connection ended for the connection of an older process: %v", context.Cause(pc.ctx))
	}
}

// Whoever cannot open a stream cannot open a connection for heartbeats.
func TestHeartbeatsRefused(t *testing.T) {
	ca, other := newAuthority(t, "ca"), newAuthority(t, "other ca")
	secure, _ := secureConfig(t, "n2", ca)
	for _, c := range []struct {
		name, want string
		at         Config
		cert       *tls.Certificate
		change     func(hello map[string]string)
	}{
		{name: "key", at: testConfig("n2", 1), want: `the cluster key of node "n1"`, change: func(h map[string]string) { h[mdToken] = "00" }},
		{name: "cluster", at: testConfig("n2", 1), want: `belongs to cluster "another"`, change: func(h map[string]string) { h[mdCluster] = "another" }},
		{name: "another node", at: testConfig("n2", 1), want: `looks for node "n3"`, change: func(h map[string]string) { h[mdWanted] = "n3" }},
		{name: "wrong end", at: testConfig("n2", 1), want: `opens the connection for heartbeats`, change: func(h map[string]string) { h[mdNode] = "n9" }},
		{
			name: "another's certificate", at: secure, want: `a call in the name of node "n1"`,
			cert: new(issue(t, ca, request("n0"))), change: func(map[string]string) {},
		},
		{
			name: "another authority", at: secure, want: "remote error", // the handshake fails
			cert: new(issue(t, other, request("n1"))), change: func(map[string]string) {},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			heartbeats := &heartbeatLog{}
			c.at.Heartbeats = heartbeats
			n := start(t, c.at)
			caller := newIdentity(new(testConfig("n1", 1).withDefaults()))
			hello := caller.values()
			hello[mdWanted] = "n2"
			if c.cert != nil {
				hello[mdToken] = ""
			}
			c.change(hello)
			got := callHeartbeats(t, n.address, c.cert, hello)
			if !strings.Contains(got, c.want) {
				t.Errorf("the answer is %q, want it to have %q", got, c.want)
			}
			if len(heartbeats.got) > 0 {
				t.Error("a heartbeat was taken")
			}
		})
	}
}

// callHeartbeats opens a connection for heartbeats by hand and returns the refusal, or the error.
func callHeartbeats(t *testing.T, address string, cert *tls.Certificate, hello map[string]string) string {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(t.Context(), func() { _ = conn.Close() })()
	if cert == nil {
		if _, err := conn.Write([]byte(heartbeatPreface)); err != nil {
			t.Fatal(err)
		}
	} else {
		conn = tls.Client(conn, &tls.Config{
			MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, NextProtos: []string{heartbeatProtocol}, Certificates: []tls.Certificate{*cert},
		})
	}
	if err := writeHeartbeat(conn, &nodev1.HeartbeatHello{Identity: hello}); err != nil {
		return err.Error()
	}
	var answer nodev1.HeartbeatHello
	if err := readHeartbeat(newHeartbeatReader(conn), &answer); err != nil {
		return err.Error()
	}
	return answer.GetRefusal()
}

// What is too long, cut off or no message is an error, and no more is read for it.
func TestReadHeartbeatFaults(t *testing.T) {
	for _, b := range [][]byte{nil, {0}, {0, 5, 1}, {0xff, 0xff, 1, 2, 3}, {0, 2, 0xff, 0xff}} {
		var m nodev1.Ping
		if err := readHeartbeat(bufio.NewReaderSize(bytes.NewReader(b), heartbeatHead+maxHeartbeatBytes), &m); err == nil {
			t.Errorf("%x is read as %v", b, &m)
		}
	}
	var long bytes.Buffer
	if err := writeHeartbeat(&long, &nodev1.HeartbeatHello{Refusal: strings.Repeat("x", maxHeartbeatBytes)}); err == nil || long.Len() > 0 {
		t.Errorf("%v, %d bytes", err, long.Len())
	}
}
