package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/recovery"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// The catalog has forgotten the lost nodes, and a queue was not recovered: its log was put back, as a run that was broken off
// by a power cut used to leave it. The lost nodes are voters of the queue still, so that the run can be repeated.
func TestRecoverAfterTheCatalog(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 3)
	n.nodes["a"].publish(t, q, "kept", quorumq.Unlimited)
	n.caughtUp(q, "a")
	n.stop("a", "b", "c")
	n.remove("b", "c")
	log, before := filepath.Join(n.dir, "a", datadir.LogDir), filepath.Join(n.dir, "before")
	if err := os.CopyFS(before, os.DirFS(log)); err != nil {
		t.Fatal(err)
	}
	run := func() (done map[string]recovery.Action) {
		t.Helper()
		r, err := n.openRecovery("a", []id.NodeID{"b", "c"})
		if err != nil {
			t.Fatal(err)
		}
		done = actions(r)
		if err := errors.Join(r.Run(), r.Close()); err != nil {
			t.Fatal(err)
		}
		return done
	}
	run()
	if err := errors.Join(os.RemoveAll(log), os.Rename(before, log)); err != nil {
		t.Fatal(err)
	}
	if again := run(); again[`queue "q" in vhost "/"`] != recovery.Here || again["the catalog"] != recovery.Nothing {
		t.Errorf("the second run: %v", again)
	}
	n.join = nil
	n.start("a")
	if in := consumeAll(t, n.nodes["a"], q, 1); !slices.Equal(in, []string{"kept"}) {
		t.Errorf("delivered %q", in)
	}
}
