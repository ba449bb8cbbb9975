package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cluster/storage"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// What a peer sends comes into the catalog's log only if its leader can read it: in the log
// it would stop the members that cannot.
func TestCatalogLeaderRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	leader := n.catalogLeader().cfg.Node
	asker := id.NodeID("a")
	if leader == "a" {
		asker = "b"
	}
	peer, err := n.nodes[asker].mux.Client(leader)
	if err != nil {
		t.Fatal(err)
	}
	good := catalog.AppendCommand(nil, &catalog.DeleteUser{Name: "nobody"})
	newer := append([]byte{byte(catalog.NewestVersion) + 1}, good[1:]...)
	for name, c := range map[string]struct {
		command []byte
		refused string
	}{
		"of another version": {newer, "newer version of Quorate"},
		"of another kind":    {[]byte{1, 200}, "newer version of Quorate: unknown command 200"},
		"cut":                {good[:len(good)-1], "cut short"},
		"with bytes too many": {
			append(good[:len(good):len(good)], 0), "1 bytes left over",
		},
		"empty": {nil, "cut short"},
		"whole": {good, ""},
	} {
		answer, err := peer.ProposeCatalog(testContext(t), &nodev1.ProposeCatalogRequest{Command: c.command})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r, err := catalog.DecodeReply(answer.GetReply())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		switch proposed := r.Index > 0; {
		case proposed != (c.refused == ""):
			t.Errorf("%s: it came into the log: %v; reply %+v", name, proposed, r)
		case !proposed && !strings.Contains(r.Err.Error(), c.refused):
			t.Errorf("%s: refused with %q, want one with %q", name, r.Err, c.refused)
		}
	}
	n.nodes["a"].declare(t, "orders", 3)
}

// finalised waits until nodes know that the newest version is finalised.
func (n *testNodes) finalised(ids ...id.NodeID) {
	n.t.Helper()
	for _, i := range ids {
		poll(n.t, "node "+string(i)+" knows the finalised version", func() error {
			if got := n.nodes[i].View().Version(); got != catalog.NewestVersion {
				return fmt.Errorf("it is %d, want %d", got, catalog.NewestVersion)
			}
			return nil
		})
	}
}

// A new cluster finalises the newest version by itself, once, and keeps it; the files of
// each node show it, so that a build that cannot read it does not start on them.
func TestNewClusterFinalises(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	n.finalised("a", "b", "c")
	for _, node := range n.nodes {
		poll(t, "the snapshot has it", func() error {
			if node.catalog.Raft().Stats().SnapshotIndex == 0 {
				return errWaiting
			}
			return nil
		})
	}
	n.stop("a", "b", "c")
	n.launch("a") // alone it knows what its files have
	if got := n.nodes["a"].View().Version(); got != catalog.NewestVersion {
		t.Errorf("version %d in the files, want %d", got, catalog.NewestVersion)
	}
}

// A node that is registered and away holds a version back, by name; so does one that is set to
// leave it to an operator, whoever leads. What needs the version is refused meanwhile.
func TestNotFinalisable(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, func(c *Config) {
		steady(c)
		c.ManualFinalise = c.Node == "c"
	})
	n.start("a", "b", "c")
	ctx := testContext(t)
	poll(t, "all are registered", func() error {
		v, err := n.nodes["a"].catalog.Versions(ctx)
		if err == nil && len(v.Held) > 0 {
			err = fmt.Errorf("held back by %+v", v.Held)
		}
		if err == nil && (v.Finalised != catalog.VersionFirst || v.Common != catalog.NewestVersion || !slices.Equal(v.Manual, []id.NodeID{"c"})) {
			t.Fatalf("versions %+v", v)
		}
		return err
	})
	n.stop("c")
	_, err := n.nodes["a"].catalog.Finalise(ctx)
	if !errors.Is(err, metadata.ErrNotFinalisable) || !strings.Contains(err.Error(), fmt.Sprintf("version %d: node %q does not answer: upgrade", catalog.NewestVersion, "c")) {
		t.Errorf("finalised while a node was away: %v", err)
	}
	n.start("c")
	poll(t, "it is finalised", func() error { _, err := n.nodes["b"].catalog.Finalise(ctx); return err })
	n.finalised("a", "b", "c")
}

// inject puts commands past all checks into a group's log, as an older build would.
func inject[R, E any](t *testing.T, g *raftfsm.Group[R, E], header []byte) {
	t.Helper()
	_, err := g.Propose(testContext(t), raftfsm.Command{Header: header})
	if !errors.Is(err, raftfsm.ErrUnknownOutcome) {
		t.Fatalf("the command was answered with %v", err)
	}
}

// stopped waits until a leader has stopped, and the one after it: without them the third has
// no majority that reports to it that the command is committed.
func (n *testNodes) stopped(failed func(*testNode) error) {
	n.t.Helper()
	poll(n.t, "two members have stopped", func() error {
		count := 0
		for _, node := range n.nodes {
			if failed(node) != nil {
				count++
			}
		}
		if count < 2 {
			return fmt.Errorf("%d have", count)
		}
		return nil
	})
}

// A member that meets a committed command that it cannot read stops before it: nothing later
// is applied, nobody is answered from it, and it says what to do. It is not taken for damaged,
// and its node continues with its other groups. A build that can read it carries on.
func TestUnreadableQueueCommand(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	q, other := n.nodes["a"].declare(t, "orders", 3), n.nodes["a"].declare(t, "bills", 3)
	enqueue := &quorumq.Enqueue{
		Enqueuer: quorumq.EnqueuerKey{Node: "a", Epoch: 1}, First: 1,
		Messages: []quorumq.NewMessage{{Size: 5, TTLMs: quorumq.Unlimited}},
	}
	n.do(q, enqueue, []byte("hello"))
	n.ruled(q, quorumq.NewestRules) // all members are there, and nothing else is about to be proposed
	inject(t, n.leader(q).host.Member(q).Group(), []byte{1, 200})
	n.stopped(func(node *testNode) error { return node.host.Member(q).Group().Failed() })
	for i, node := range n.nodes {
		m := node.host.Member(q)
		if s := m.Group().Stats(); s.AppliedIndex >= s.LastIndex {
			t.Errorf("node %s: applied up to %d, the log ends at %d", i, s.AppliedIndex, s.LastIndex)
		}
		err := m.Group().Failed()
		if err == nil {
			continue
		}
		if !errors.Is(err, raftfsm.ErrUnreadable) || storage.Damaged(err) || !strings.Contains(err.Error(), "kind 200 is unknown") ||
			!strings.Contains(err.Error(), fmt.Sprintf("this build reads version %d", catalog.NewestVersion)) || !strings.Contains(err.Error(), q.Group().String()) {
			t.Errorf("node %s: %v", i, err)
		}
		if lost := node.host.LostMembers(); len(lost) > 0 {
			t.Errorf("node %s takes %v for damaged", i, lost)
		}
		if err := node.Ready(); err != nil {
			t.Errorf("node %s is not ready: %v", i, err)
		}
	}
	n.do(other, enqueue, []byte("hello"))
}

// The same of the catalog: its node is not ready, with the reason.
func TestUnreadableCatalogCommand(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	n.finalised("a", "b", "c")
	inject(t, n.catalogLeader().catalog.Raft(), []byte{byte(catalog.NewestVersion) + 1, 1})
	n.stopped(func(node *testNode) error { return node.catalog.Raft().Failed() })
	for i, node := range n.nodes {
		if node.catalog.Raft().Failed() == nil {
			continue
		}
		if err := node.Ready(); !errors.Is(err, raftfsm.ErrUnreadable) || raftfsm.Damaged(err) ||
			!strings.Contains(err.Error(), fmt.Sprintf("format version %d, this build reads version %d", catalog.NewestVersion+1, catalog.NewestVersion)) {
			t.Errorf("node %s: Ready: %v", i, err)
		}
	}
}

// What a gateway sends that members could not read is answered, and not proposed.
func TestMalformedQueueCommand(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "orders", 3)
	n.ruled(q, quorumq.NewestRules) // nothing else is about to be proposed
	leader := n.leader(q)
	before := leader.host.Member(q).Group().Stats().Commands
	good := quorumq.AppendCommand(nil, &quorumq.Purge{})
	for name, c := range map[string]raftfsm.Command{
		"of another version":  {Header: append([]byte{2}, good[1:]...)},
		"of another kind":     {Header: []byte{1, 200}},
		"with bytes too many": {Header: append(good[:len(good):len(good)], 0)},
		"with a body":         {Header: good, Bodies: [][]byte{{1}}},
		"cut":                 {Header: good[:1]},
	} {
		frame := &nodev1.Frame{Kind: &nodev1.Frame_QueueCommand{
			QueueCommand: &nodev1.QueueCommand{Queue: uint64(q), Request: 7, Header: c.Header, Bodies: c.Bodies},
		}}
		answer := make(chan *nodev1.QueueReply, 1)
		leader.host.HandleRequest(transport.Peer{Node: "b"}, frame, func(f *nodev1.Frame) error {
			answer <- f.GetQueueReply()
			return nil
		})
		if r := <-answer; quorumq.ReplyCode(r.GetCode()) != quorumq.CodeMalformed || r.GetError() != nil {
			t.Errorf("%s: answered %v", name, r)
		}
	}
	if s := leader.host.Member(q).Group().Stats(); s.Commands != before || leader.host.Member(q).Group().Failed() != nil {
		t.Errorf("%d commands were applied, before %d; failed %v", s.Commands, before, leader.host.Member(q).Group().Failed())
	}
}

// The newest rules of queues come with a version of the catalog.
func TestVersionOfRules(t *testing.T) {
	if quorumq.NewestRules != quorumq.Rules(catalog.VersionSealed) || quorumq.RulesOf(uint8(catalog.NewestVersion)) != quorumq.NewestRules {
		t.Errorf("rules %d come with version %d, want %d", quorumq.NewestRules, quorumq.RulesOf(uint8(catalog.NewestVersion)), catalog.VersionSealed)
	}
}

// The version of stored commands that a message with a past needs is the one that the catalog names.
func TestVersionOfPast(t *testing.T) {
	b := quorumq.AppendCommand(nil, &quorumq.Enqueue{
		Enqueuer: quorumq.EnqueuerKey{Node: "a", Epoch: 1}, First: 1, Messages: []quorumq.NewMessage{{TTLMs: quorumq.Unlimited, Past: &quorumq.Past{}}},
	})
	if b[0] != byte(catalog.VersionBackups) {
		t.Errorf("version %d, want %d", b[0], catalog.VersionBackups)
	}
}
