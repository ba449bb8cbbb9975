package transport

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/pulse"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// heartbeatLog is the Heartbeats of a node in a test. mu guards what is below it.
type heartbeatLog struct {
	mu   sync.Mutex
	says pulse.Heartbeat
	got  map[id.NodeID]pulse.Heartbeat
	came map[id.NodeID]int
	late []id.NodeID
}

func (t *heartbeatLog) Heartbeat(id.NodeID) pulse.Heartbeat {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.says
}

// news lets the node say something else.
func (t *heartbeatLog) news(b pulse.Heartbeat) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.says = b
}

func (t *heartbeatLog) Late(n id.NodeID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.late = append(t.late, n)
}

func (t *heartbeatLog) HandleHeartbeat(from id.NodeID, b pulse.Heartbeat) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.got == nil {
		t.got, t.came = map[id.NodeID]pulse.Heartbeat{}, map[id.NodeID]int{}
	}
	t.got[from] = b
	t.came[from]++
}

// times returns how many heartbeats of a node have come.
func (t *heartbeatLog) times(from id.NodeID) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.came[from]
}

func (t *heartbeatLog) heard(from id.NodeID, b pulse.Heartbeat) bool {
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
		beats1, beats2 := &heartbeatLog{says: pulse.Heartbeat{Led: 7, LedHash: 8}}, &heartbeatLog{says: pulse.Heartbeat{Led: 9, Stalled: true}}
		conf1.Heartbeats, conf2.Heartbeats = beats1, beats2
		conf1.HeartbeatEvery, conf2.HeartbeatEvery = 10*time.Millisecond, 10*time.Millisecond
		a, b := start(t, conf1), start(t, conf2)
		meet(a, b)
		until(t, "both are told", func() bool {
			return beats1.heard("n2", beats2.says) && beats2.heard("n1", beats1.says)
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
		return beats1.heard("n2", pulse.Heartbeat{}) && beats2.heard("n1", pulse.Heartbeat{})
	})
	for _, news := range []pulse.Heartbeat{{Stalled: true}, {Led: 1, LedHash: 2}} {
		beats1.news(news)
		a.Say()
		until(t, "the one that is asked is told", func() bool { return beats2.heard("n1", news) })
		beats2.news(news)
		b.Say()
		until(t, "the one that asks is told", func() bool { return beats1.heard("n2", news) })
	}
	if d, up := a.Silent("n2"); d != 0 || !up {
		t.Errorf("the one that asks has been without an answer for %v, connection is up: %v", d, up)
	}
	if d, up := b.Silent("n1"); d != 0 || !up {
		t.Errorf("the one that is asked has been without an answer for %v, connection is up: %v", d, up)
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
		return err == nil && b.pulses.Of("n1").Judges(pc.began, 0) // before that, nothing is held against the peer
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
	asked := &heartbeatLog{}
	conf1.Heartbeats, conf2.Heartbeats = &heartbeatLog{}, asked
	a, b := start(t, conf1), start(t, conf2)
	a.SetPeer("n2", b.address)
	until(t, "the one that is asked is asked", func() bool { return asked.times("n1") == 2 }) // the second ping reports what the first one measured
	b.SetPeer("n1", a.address)
	connected(t, b, a)
	var pc *peerConn
	until(t, "there is a connection", func() (up bool) {
		var err error
		pc, err = b.connection("n1")
		return err == nil
	})
	if b.pulses.Of("n1").Judges(pc.began, 0) {
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
	p := b.pulses.Of("n1")
	until(t, "a heartbeat is owed for too long", func() bool { return p.Unanswered(time.Now(), pc.began) > conf2.PingTimeout })
	b.overdue(p)
	if err := pc.ctx.Err(); err != nil {
		t.Errorf("the connection ended: %v", context.Cause(pc.ctx))
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
		if _, err := conn.Write([]byte(pulse.Preface)); err != nil {
			t.Fatal(err)
		}
	} else {
		conn = tls.Client(conn, &tls.Config{
			MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, NextProtos: []string{pulse.Protocol}, Certificates: []tls.Certificate{*cert},
		})
	}
	if err := pulse.Write(conn, &nodev1.HeartbeatHello{Identity: hello}); err != nil {
		return err.Error()
	}
	var answer nodev1.HeartbeatHello
	if err := pulse.Read(pulse.NewReader(conn), &answer); err != nil {
		return err.Error()
	}
	return answer.GetRefusal()
}
