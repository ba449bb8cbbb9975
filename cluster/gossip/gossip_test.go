package gossip

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/loopback"
)

// lines keeps what was logged.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), s)
}

type member struct {
	*Members
	logged *lines

	heardMu sync.Mutex // not mu, which would hide that of Members
	heard   map[id.NodeID][]Node
}

func config(name string, epoch int, join ...string) Config {
	return Config{
		Cluster: "test", BindAddr: "127.0.0.1:0", Join: join, Key: []byte("0123456789abcdef"),
		JoinEvery: 50 * time.Millisecond, ProbeEvery: 100 * time.Millisecond,
		Node: Node{
			ID: id.NodeID(name), Epoch: id.Epoch(epoch), Version: "1.2.3",
			PeerAddr: fmt.Sprintf("10.0.0.%d:7100", epoch), ClientAddr: fmt.Sprintf("10.0.0.%d:7000", epoch),
		},
	}
}

func start(t *testing.T, c Config) *member {
	t.Helper()
	m := &member{logged: &lines{}, heard: map[id.NodeID][]Node{}}
	c.Logger = slog.New(slog.NewTextHandler(m.logged, nil))
	var err error
	if m.Members, err = Start(c); err != nil {
		t.Fatal(err)
	}
	var reader sync.WaitGroup
	reader.Go(func() {
		for e := range m.Events() {
			m.heardMu.Lock()
			m.heard[e.Node.ID] = append(m.heard[e.Node.ID], e.Node)
			m.heardMu.Unlock()
		}
	})
	t.Cleanup(func() {
		m.kill(t)
		reader.Wait()
	})
	return m
}

// kill stops the node without a word, as a crash does. After Leave it does nothing.
func (m *member) kill(t *testing.T) {
	t.Helper()
	m.left.Do(func() { m.leftBy = m.stop(context.Background(), false) })
	if m.leftBy != nil {
		t.Error(m.leftBy)
	}
}

// state returns what the node knows of another, by its events if byEvents is set.
func (m *member) state(n id.NodeID, byEvents bool) (Node, bool) {
	if byEvents {
		m.heardMu.Lock()
		defer m.heardMu.Unlock()
		all := m.heard[n]
		if len(all) == 0 {
			return Node{}, false
		}
		return all[len(all)-1], true
	}
	for _, k := range m.Nodes() {
		if k.ID == n {
			return k, true
		}
	}
	return Node{}, false
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			b := make([]byte, 1<<18)
			t.Fatalf("after 30 s, still not: %s\n%s", what, b[:runtime.Stack(b, true)])
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// sees waits until the node, and who reads its events, know the other so.
func (m *member) sees(t *testing.T, n id.NodeID, epoch id.Epoch, alive bool) {
	t.Helper()
	for _, byEvents := range []bool{false, true} {
		until(t, fmt.Sprintf("%s sees %s epoch %d alive %v", m.config.Node.ID, n, epoch, alive), func() bool {
			k, ok := m.state(n, byEvents)
			return ok && k.Epoch == epoch && k.Alive == alive
		})
	}
}

func meet(t *testing.T, ms ...*member) {
	t.Helper()
	for _, a := range ms {
		for _, b := range ms {
			if a != b {
				a.sees(t, b.config.Node.ID, b.config.Node.Epoch, true)
			}
		}
	}
}

// freeAddress returns one that is free as often as a node binds it: nobody else gets it in between.
func freeAddress(t *testing.T) string {
	t.Helper()
	a, err := loopback.Address()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func three(t *testing.T) []*member {
	t.Helper()
	a := start(t, config("n1", 1))
	b := start(t, config("n2", 1, a.GossipAddr()))
	third := config("n3", 1, a.GossipAddr(), b.GossipAddr())
	third.BindAddr = freeAddress(t)
	c := start(t, third)
	meet(t, a, b, c)
	return []*member{a, b, c}
}

func TestJoinAndLeave(t *testing.T) {
	ms := three(t)
	want := Node{ID: "n2", Epoch: 1, PeerAddr: "10.0.0.1:7100", ClientAddr: "10.0.0.1:7000", Version: "1.2.3", Alive: true, GossipAddr: ms[1].GossipAddr()}
	if got, _ := ms[0].state("n2", true); got != want {
		t.Errorf("n1 was byEvents %+v, want %+v", got, want)
	}
	var ids []id.NodeID
	for _, n := range ms[2].Nodes() {
		ids = append(ids, n.ID)
	}
	if !slices.Equal(ids, []id.NodeID{"n1", "n2", "n3"}) {
		t.Errorf("nodes %v, want n1, n2, n3", ids)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := ms[2].Leave(ctx); err != nil {
		t.Fatal(err)
	}
	ms[0].sees(t, "n3", 1, false)
	ms[1].sees(t, "n3", 1, false)
	if err := ms[2].Leave(ctx); err != nil {
		t.Errorf("leaving twice: %v", err)
	}
}

// A node that comes back under its id is known by its new epoch, at the same address
// and at another, whether the others took it for dead before or not.
func TestRestart(t *testing.T) {
	for _, c := range []struct {
		name           string
		same, seenDead bool
	}{
		{name: "same address at once", same: true},
		{name: "same address after it was taken for dead", same: true, seenDead: true},
		{name: "another address at once"},
		{name: "another address after it was taken for dead", seenDead: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ms := three(t)
			address := ms[2].GossipAddr()
			ms[2].kill(t)
			if c.seenDead {
				ms[0].sees(t, "n3", 1, false)
				ms[1].sees(t, "n3", 1, false)
			}
			conf := config("n3", 2, ms[0].GossipAddr())
			if c.same {
				conf.BindAddr = address
			}
			again := start(t, conf)
			meet(t, ms[0], ms[1], again)
			// It is a member for good, not only by its claim.
			until(t, "gossip agrees on the address", func() bool {
				for _, m := range ms[:2] {
					m.mu.Lock()
					k := *m.nodes["n3"]
					m.mu.Unlock()
					if !k.claimed.IsZero() || k.GossipAddr != again.GossipAddr() || !k.Alive {
						return false
					}
				}
				return true
			})
		})
	}
}

// Two halves that formed apart grow together, though nobody is alone, and a node to join
// was not there, or its name unknown, when it was first tried.
func TestHalvesGrowTogether(t *testing.T) {
	later := freeAddress(t)
	_, port, err := net.SplitHostPort(later)
	if err != nil {
		t.Fatal(err)
	}
	a := start(t, config("n1", 1, "no-such-node.invalid:7946", "localhost:"+port))
	b := start(t, config("n2", 1, a.GossipAddr()))
	meet(t, a, b)
	conf := config("n3", 2)
	conf.BindAddr = later
	c := start(t, conf)
	d := start(t, config("n4", 1, later))
	meet(t, a, b, c, d)
}

// A node with another key, or none, stays out, and both sides say once what to do.
func TestWrongKey(t *testing.T) {
	for _, key := range []string{"another key 0123", ""} {
		t.Run(fmt.Sprintf("%q", key), func(t *testing.T) {
			a := start(t, config("n1", 1))
			conf := config("n2", 1, a.GossipAddr())
			conf.Key = []byte(key)
			b := start(t, conf)
			until(t, "both say why", func() bool { return a.logged.count(wrongKey) > 0 && b.logged.count(wrongKey) > 0 })
			if n, m := len(a.Nodes()), len(b.Nodes()); n != 1 || m != 1 {
				t.Errorf("n1 knows %d nodes and n2 %d, want 1 each", n, m)
			}
			if n := b.logged.count(wrongKey); n != 1 {
				t.Errorf("n2 said it %d times, want once", n)
			}
		})
	}
}

// Gossip of another cluster is refused, and both sides say once what to do.
func TestOtherCluster(t *testing.T) {
	a := start(t, config("n1", 1))
	conf := config("n2", 1, a.GossipAddr())
	conf.Cluster = "other"
	b := start(t, conf)
	const refused = "gossip of another cluster is refused: set the same cluster name on both"
	until(t, "both say why", func() bool {
		return a.logged.count(refused) > 0 && b.logged.count("check that it has the same cluster name") > 0
	})
	if n, m := len(a.Nodes()), len(b.Nodes()); n != 1 || m != 1 {
		t.Errorf("n1 knows %d nodes and n2 %d, want 1 each", n, m)
	}
	if a.logged.count("their_cluster=other") != 1 {
		t.Errorf("n1 said which cluster %d times, want once", a.logged.count("their_cluster=other"))
	}
}

// Two processes with one id and epoch: the others say so, and the second itself.
func TestTwoProcesses(t *testing.T) {
	a := start(t, config("n1", 1))
	b := start(t, config("n2", 1, a.GossipAddr()))
	meet(t, a, b)
	second := start(t, config("n2", 1, a.GossipAddr()))
	const want = "two processes use the same node id and epoch"
	until(t, "two of them say so", func() bool { return a.logged.count(want) > 0 && second.logged.count(want) > 0 })
	if n := second.logged.count(want); n != 1 {
		t.Errorf("the second says it %d times, want once", n)
	}
}

func TestValidate(t *testing.T) {
	err := Config{
		BindAddr: "7946", Advertise: "host", Join: []string{"x"}, Key: []byte("short"), JoinEvery: -1, ProbeEvery: -1,
		Node: Node{PeerAddr: strings.Repeat("p", 600)},
	}.Validate()
	for _, want := range []string{
		"Cluster has 0 bytes", "Node.ID is empty", "takes 613 bytes, the limit is 512", `BindAddr: "7946" is not host:port`,
		`Advertise: "host" is not host:port`, `Join: "x" is not host:port`, "Key has 5 bytes: use 16, 24 or 32", "JoinEvery is -1ns",
		"ProbeEvery is -1ns",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not contain %q", err, want)
		}
	}
	if err := config("n1", 1, "some-host:7946").Validate(); err != nil {
		t.Error(err)
	}
}

func TestMeta(t *testing.T) {
	n := Node{Epoch: 1 << 40, PeerAddr: "a:1", ClientAddr: "b:2", Version: "v"}
	old := encodeMeta(n)
	if got := fmt.Sprintf("%x", old); got != "01000001000000000003613a3103623a320176" {
		t.Errorf("bytes %s", got)
	}
	if got, err := readMeta(old); err != nil || got != n {
		t.Errorf("%+v, %v, want %+v", got, err, n)
	}
	n.Store = "s"
	b := encodeMeta(n)
	if got := fmt.Sprintf("%x", b); got != "01000001000000000003613a3103623a3201760173" {
		t.Errorf("bytes %s", got)
	}
	if got, err := readMeta(append(b, "later"...)); err != nil || got != n {
		t.Errorf("%+v, %v, want %+v", got, err, n)
	}
	for i := range b {
		if _, err := readMeta(b[:i]); err == nil && i != len(old) {
			t.Errorf("the first %d bytes are taken for the whole", i)
		}
	}
	if _, err := readMeta([]byte{9}); err == nil {
		t.Error("version 9 is taken")
	}
}

func FuzzMeta(f *testing.F) {
	f.Add(encodeMeta(Node{Epoch: 7, PeerAddr: "a:1", ClientAddr: "b:2", Version: "v"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := readMeta(b)
		if err != nil {
			return
		}
		if again, err := readMeta(encodeMeta(n)); err != nil || again != n {
			t.Errorf("%+v became %+v, %v", n, again, err)
		}
	})
}
