package fault

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/each"
	"github.com/quorate/quorate/internal/wait"
)

// dataKinds are the faults that take from one node what it had target.Files. No more than a minority
// may be hit before all is whole again, so they wait for that.
func dataKinds() []Kind {
	one := []Role{Leader, Follower, Anyone}
	flip := func(name, of string, among files) Kind {
		return using(Kind{
			Name: name, Does: "flips a bit in " + of + " of a node that was killed, and starts it", Roles: one, Class: "damaged", Alone: true, Named: true, Chance: true,
		}, "change files", func(ctx context.Context, s *Scene, d target.Files, c Choice) (Fault, error) {
			return bitFlip(ctx, s, d, c, among)
		})
	}
	return []Kind{
		flip("bit-flip", "a file", files{}),
		flip("flip-log", "the newest segment of the log", files{patterns: []string{"wal/*.wal"}, newest: true}),
		flip("flip-catalog", "the catalog's log", files{patterns: []string{"catalog/log.db"}}),
		flip("flip-snapshot", "a snapshot", files{patterns: []string{"catalog/snapshots/*.snapshot", "queues/*/snapshots/*.snapshot", "queues/*/*.snapshot"}}),
		flip("flip-epoch", "a copy of the epoch", files{patterns: []string{"epoch.*"}}),
		flip("flip-mark", "a copy of the mark", files{patterns: []string{"mark.*"}}),
		using(Kind{
			Name: "wiped", Does: "empties a node's disk; it comes back under its id when its store is given up", Roles: one, Class: "wiped", Alone: true, Named: true,
			Long: true, Shortest: time.Second, Longest: 4 * time.Second,
		}, "empty disks", wiped),
		using(Kind{
			Name: "recover", Does: "empties the disks of two nodes of three, and lets the third go on alone by quorate recover until they have joined again",
			Roles: []Role{All}, Class: "recovered", Alone: true, Named: true, Long: true, Longest: 2 * time.Second,
		}, "recover nodes", recovered),
	}
}

// files are those among which one is damaged.
type files struct {
	patterns []string // of their names, below the data directory; none: all
	// newest says that it is the last of them in the order of their names that has content, because a start reads no
	// other in full; else each is as likely as another.
	newest bool
}

// has reports whether a file is one of them.
func (f files) has(name string) bool {
	return len(f.patterns) == 0 || slices.ContainsFunc(f.patterns, func(p string) bool {
		is, err := filepath.Match(p, filepath.ToSlash(name))
		return is && err == nil
	})
}

// wiped waits first until all is whole: a client may be about to change the members of a queue, which has two of
// them meanwhile, and must not lose one for good.
func wiped(ctx context.Context, s *Scene, d target.Stores, c Choice) (Fault, error) {
	node := c.Nodes[0]
	if err := whole(ctx, s); err != nil {
		return Fault{}, err
	}
	bit := endsProcesses(ctx, s, c.Nodes[:1])
	err := d.Lose(ctx, node)
	return Fault{Bit: bit, Heal: func(ctx context.Context) error {
		if err := d.Start(ctx, node); err != nil {
			return err
		}
		return errors.Join(replaced(ctx, s, node), whole(ctx, s))
	}}, err
}

// replaced gives a node's store up as soon as the cluster can do without it, and waits for the
// node to be let in. It asks again where the cluster finds, at first or later, that it cannot yet:
// a peer that was out of reach for a moment may hold the rest of a majority.
func replaced(ctx context.Context, s *Scene, node string) error {
	ctx, cancel := context.WithTimeout(ctx, wholeTimeout)
	defer cancel()
	for {
		started, err := s.Client.ReplaceNode(ctx, client.ReplaceNodeRequest{Node: node})
		err = ended(ctx, s.Client, started, err)
		if err == nil {
			return s.Cluster.WaitReady(ctx, node)
		}
		if wait.For(ctx, 10*pollEvery) != nil {
			return fmt.Errorf("fault: replace node %s: %w", node, err)
		}
	}
}

// bitFlip flips a bit in one of the files that are meant. It waits until all is whole, as wiped does.
func bitFlip(ctx context.Context, s *Scene, d target.Files, c Choice, among files) (Fault, error) {
	node := c.Nodes[0]
	if err := whole(ctx, s); err != nil {
		return Fault{}, err
	}
	if err := d.Kill(ctx, node); err != nil {
		return Fault{}, err
	}
	at := time.Now()
	before, _ := s.Cluster.Log(ctx, node, at) // none yet, or not kept
	what, err := flip(d.Dir(node), c.Pick, among)
	if err == nil {
		s.Log("flipped %s", what)
	}
	err = errors.Join(err, d.Start(ctx, node))
	return Fault{
		Bit: func(ctx context.Context) (string, bool, error) {
			if err := s.Cluster.WaitReady(ctx, node); err != nil {
				return "", false, err
			}
			log, err := s.Cluster.Log(ctx, node, at)
			log = bytes.TrimPrefix(log, before)
			for line := range bytes.Lines(log) {
				for _, word := range []string{"damaged", "checksum", "is lost", "set aside", "second copy", "torn"} {
					if bytes.Contains(bytes.ToLower(line), []byte(word)) {
						return fmt.Sprintf("%s; %s", what, bytes.TrimSpace(line)), true, nil
					}
				}
			}
			return what + ": nobody reads that", false, err
		},
		Heal: func(ctx context.Context) error { return whole(ctx, s) },
	}, err
}

// flip changes one bit of what is not zero in one of the files that are meant, and says where: a file that was made
// larger in advance has little but zeros.
func flip(dir string, pick uint64, among files) (what string, err error) {
	var names []string
	err = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		below, _ := filepath.Rel(dir, name)
		if err == nil && e.Type().IsRegular() && !rewritten(e.Name()) && among.has(below) {
			if i, errInfo := e.Info(); errInfo == nil && i.Size() > 0 {
				names = append(names, name)
			}
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("fault: %w", err)
	}
	r := rand.New(rand.NewPCG(pick, 0))
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	if among.newest {
		slices.Sort(names)
		slices.Reverse(names)
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("fault: %w", err)
		}
		used := bytes.TrimRight(content, "\x00")
		if len(used) == 0 {
			continue
		}
		at := r.IntN(len(used))
		used[at] ^= 1 << r.IntN(8)
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return "", fmt.Errorf("fault: %w", err)
		}
		_, err = f.WriteAt(used[at:at+1], int64(at))
		name, _ = filepath.Rel(dir, name)
		return fmt.Sprintf("a bit of byte %d of %s, which has %d", at, name, len(used)), errors.Join(err, f.Close())
	}
	return "nothing: there is no such file with content", nil
}

// rewritten reports whether a node writes a file anew at each start, so that nobody ever reads
// what was flipped there (docs/operations.md, "Damaged files").
func rewritten(name string) bool {
	return slices.Contains([]string{"asleep", "lock", "alive", "administrator.token"}, name) || strings.HasPrefix(name, "spare-") ||
		strings.HasSuffix(name, ".new") || strings.HasSuffix(name, ".tmp")
}

// wholeTimeout bounds the time in which nodes get back what they lost: with recover every queue is sent twice, beside the
// load, on what may be a busy machine.
const wholeTimeout = 3 * time.Minute

// whole waits until every node is ready and has lost nothing, and every member of every queue is
// there.
func whole(ctx context.Context, s *Scene) error {
	ctx, cancel := context.WithTimeout(ctx, wholeTimeout)
	defer cancel()
	s.awaitChange()
	var lack error // what the last look found that was not cut short
	for {
		err := isWhole(ctx, s)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			lack = err
		}
		if wait.For(ctx, 5*pollEvery) != nil {
			return fmt.Errorf("fault: not whole after %v: %w", wholeTimeout, cmp.Or(lack, err))
		}
	}
}

// awaitChange returns when the change of members is over that a workload has begun before the fault: it may take one out at
// any moment.
func (s *Scene) awaitChange() {
	s.Changes.Lock()
	defer s.Changes.Unlock()
}

func isWhole(ctx context.Context, s *Scene) error {
	for _, n := range s.Cluster.Nodes() {
		if err := s.Cluster.WaitReady(ctx, n.ID); err != nil {
			return err
		}
		lost, err := target.Metric(ctx, s.Cluster, n.ID, "quorate_log_groups_lost")
		if err != nil || lost > 0 {
			return fmt.Errorf("fault: node %s has lost %.0f groups: %w", n.ID, lost, err)
		}
	}
	queues, err := client.Collect(s.Client.Queues(ctx, client.ListQueuesRequest{}))
	if err != nil {
		return fmt.Errorf("fault: %w", err)
	}
	nodes := len(s.Cluster.Nodes())
	err = each.Of(queues, askedAtOnce, func(q client.QueueInfo) error { return queueIsWhole(ctx, s, q, nodes) })
	if err != nil {
		return err
	}
	return noMembersLost(ctx, s) // of those that were woken, too
}

// queueIsWhole fails unless a queue is led and all its members are there. It asks each of them, which wakes those that
// hibernate: one whose snapshot is damaged finds that only then.
func queueIsWhole(ctx context.Context, s *Scene, q client.QueueInfo, nodes int) error {
	members, err := client.Collect(s.Client.QueueMembers(ctx, client.ListQueueMembersRequest{VHost: q.VHost, Queue: q.Name}))
	for _, m := range members {
		if m.Trouble != "" {
			return fmt.Errorf("fault: queue %q: its member on node %s: %s", q.Name, m.Node, m.Trouble)
		}
	}
	if err == nil {
		q, err = s.Client.GetQueue(ctx, client.QueueRef{VHost: q.VHost, Name: q.Name}) // a list has no figures
	}
	switch {
	case client.ClassOf(err) == client.NotFound: // a client has deleted it meanwhile
		return nil
	case err != nil:
		return fmt.Errorf("fault: %w", err)
	case q.Leader == "" || !Complete(q, nodes):
		return fmt.Errorf("fault: queue %q has %v of %v, led by %q", q.Name, q.Online, q.Members, q.Leader)
	}
	return nil
}

// noMembersLost asks all nodes: a queue counts a member as online if its node is linked, even if the node does not
// answer, or the member waits there without data because another change of the queue is in progress.
func noMembersLost(ctx context.Context, s *Scene) error {
	status, err := s.Client.ClusterDetails(ctx)
	if err != nil {
		return fmt.Errorf("fault: %w", err)
	}
	for i := range status.Nodes {
		if n := &status.Nodes[i]; n.LostMembers > 0 || n.Alive && n.Start == nil {
			return fmt.Errorf("fault: node %s has %d members that are not built anew yet; it answers: %t", n.ID, n.LostMembers, n.Start != nil)
		}
	}
	return nil
}

// askedAtOnce is how many queues are asked for at the same time: clients that change members all the time leave only
// short moments in which all is whole.
const askedAtOnce = 8

// defaultMembers is how many a queue has unless it says otherwise.
const defaultMembers = 3

// Complete reports whether a queue has all the members that it has by default on so many nodes, and all are there.
func Complete(q client.QueueInfo, nodes int) bool {
	return len(q.Online) == len(q.Members) && len(q.Members) >= min(defaultMembers, nodes)
}
