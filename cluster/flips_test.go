package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// flipRounds is how many bits are flipped in each file, and the variable that says so for
// longer runs.
const (
	flipRounds   = 1
	flipVariable = "QUORATE_FLIPS"
)

// numbers are what names of files of one kind differ by.
var numbers = regexp.MustCompile(`[0-9a-f]{8}\.|q[0-9]+|[0-9]{20}-[0-9]+`)

// copyDir copies a directory of files and directories, again if a file was removed meanwhile: its node may run.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	poll(t, "the directory is copied", func() error {
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
		err := os.CopyFS(to, os.DirFS(from))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return err
	})
}

// files returns the files of a directory that hold something, relative to it.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Size() > 0 {
			name, _ := filepath.Rel(dir, path)
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// flipBit flips a bit where a file holds something, and returns the place.
func flipBit(t *testing.T, path string, random *rand.Rand) int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	used := len(b)
	for used > 1 && b[used-1] == 0 {
		used--
	}
	at := random.IntN(used)
	b[at] ^= 1 << random.IntN(8)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return at
}

// A bit is flipped in every file that a node writes, after an orderly stop and after a kill:
// the node comes back with all that was confirmed, repaired from the other copy or from its
// peers, or refuses by the name of the file.
func TestFlips(t *testing.T) {
	t.Parallel()
	rounds := flipRounds
	if v := os.Getenv(flipVariable); v != "" {
		var err error
		if rounds, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(4, 11))
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	queues := []id.QueueUID{n.nodes["a"].declare(t, "first", 3), n.nodes["b"].declare(t, "second", 3)}
	messages := 0
	publish := func() {
		messages++
		for _, q := range queues {
			n.nodes["a"].publish(t, q, strconv.Itoa(messages), quorumq.Unlimited)
		}
	}
	dir, saved := filepath.Join(n.dir, "c"), filepath.Join(n.dir, "saved")
	publish()
	for _, q := range queues {
		n.caughtUp(q, "c")
		if err := n.nodes["c"].host.Member(q).Group().Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.nodes["c"].catalog.Raft().Snapshot(); err != nil {
		t.Fatal(err)
	}
	for round := range rounds {
		done := map[string]bool{}
		for more := true; more; {
			killed := random.IntN(2) == 0
			publish()
			for _, q := range queues {
				n.caughtUp(q, "c")
			}
			n.rests("c")
			if killed {
				copyDir(t, dir, saved)
			}
			n.stop("c")
			if killed {
				copyDir(t, saved, dir)
			} else {
				copyDir(t, dir, saved)
			}
			name := ""
			for _, f := range files(t, dir) {
				if kind := numbers.ReplaceAllString(f, "#"); !done[kind] {
					done[kind], name = true, f
					break
				}
			}
			if more = name != ""; !more {
				n.start("c")
				break
			}
			at := flipBit(t, filepath.Join(dir, name), random)
			what := fmt.Sprintf("round %d, byte %d of %s, killed %v", round, at, name, killed)
			t.Log(what)
			n.survives(t, what, queues, messages, func() { copyDir(t, saved, dir) })
		}
		t.Logf("%d kinds of files", len(done))
	}
	for _, q := range queues {
		n.transferTo(t, q, "c")
		got := n.nodes["c"].drained(t, q)
		for i := 1; i <= messages; i++ {
			if got[strconv.Itoa(i)] != 1 {
				t.Errorf("queue %s: message %d is there %d times", q, i, got[strconv.Itoa(i)])
			}
		}
	}
}

// rests waits until a node's log has marked its end.
func (n *testNodes) rests(i id.NodeID) {
	n.t.Helper()
	marked := func() string {
		for {
			all := n.segments(i)
			b, err := os.ReadFile(all[len(all)-1])
			if errors.Is(err, fs.ErrNotExist) {
				continue // the node has removed it meanwhile
			}
			if err != nil {
				n.t.Fatal(err)
			}
			sum := sha256.Sum256(b)
			return string(sum[:])
		}
	}
	last := marked()
	for same := 0; same < 5; same++ {
		time.Sleep(5 * time.Millisecond)
		if now := marked(); now != last {
			last, same = now, 0
		}
	}
}

// survives starts node c with a file damaged and waits until it has all that the others have.
func (n *testNodes) survives(t *testing.T, what string, queues []id.QueueUID, messages int, restore func()) {
	t.Helper()
	started, err := Start(context.Background(), n.config("c"))
	if err != nil {
		t.Errorf("%s: the node refuses, although all is to be had elsewhere: %v", what, err)
		restore()
		n.start("c")
		return
	}
	n.close(started)
	n.start("c")
	for _, q := range queues {
		poll(t, what+": queue "+q.String()+" is whole", func() error {
			m := n.nodes["c"].host.Member(q)
			if m == nil {
				return errors.New("no member is open")
			}
			if err := m.Group().Failed(); err != nil {
				return err
			}
			r, _ := n.nodes["a"].View().QueueByUID(q)
			if r.Change != nil || !slices.Contains(r.Members, "c") {
				return fmt.Errorf("members are %q, a change goes on: %v", r.Members, r.Change)
			}
			var ready int
			m.Read(func(state *quorumq.Queue) { ready = int(state.Overview().Ready) })
			if ready != messages {
				return fmt.Errorf("%d messages, not %d", ready, messages)
			}
			return nil
		})
	}
}

// transferTo lets a node lead a queue.
func (n *testNodes) transferTo(t *testing.T, q id.QueueUID, to id.NodeID) {
	t.Helper()
	poll(t, fmt.Sprintf("node %s leads", to), func() error {
		leader := n.leader(q)
		if leader.cfg.Node == to {
			return nil
		}
		if err := leader.host.Member(q).Group().TransferLeadership(t.Context(), to); err != nil {
			return err
		}
		return errWaiting
	})
}
