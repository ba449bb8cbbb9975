package fault

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/each"
	"github.com/quorate/quorate/internal/wait"
)

// proof is a Fault's Bit.
type proof = func(ctx context.Context) (string, bool, error)

const (
	// askTimeout bounds a question to the cluster, of which nodes may be hit.
	askTimeout = 2 * time.Second
	// noticeTimeout is how long other nodes may take to notice that a process is another one: it has to start first, and a
	// pod that was evicted has one again within a second.
	noticeTimeout = 15 * time.Second
)

// known returns what a node knows of all, by node; nothing if none answers.
func known(ctx context.Context, s *Scene) map[string]client.ClusterNode {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	out := map[string]client.ClusterNode{}
	if status, err := s.Client.ClusterStatus(ctx); err == nil {
		for _, n := range status.Nodes {
			out[n.ID] = n
		}
	}
	return out
}

// endsProcesses returns the proof of faults that end the processes which nodes have now: afterwards a node has none, or
// one of another epoch, which every start counts up, or one that others refuse, because it comes with another store.
func endsProcesses(ctx context.Context, s *Scene, nodes []string) proof {
	before := known(ctx, s)
	return func(ctx context.Context) (string, bool, error) {
		ctx, cancel := context.WithTimeout(ctx, noticeTimeout)
		defer cancel()
		for {
			said, ended := processesEnded(s, nodes, before, known(ctx, s))
			if ended || wait.For(ctx, 5*pollEvery) != nil {
				return said, ended, nil
			}
		}
	}
}

// processesEnded returns for each node the evidence that its former process has ended, and whether there is evidence
// for all.
func processesEnded(s *Scene, nodes []string, before, now map[string]client.ClusterNode) (said string, all bool) {
	processes, _ := s.Cluster.(target.Processes)
	lines := make([]string, 0, len(nodes))
	all = true
	for _, n := range nodes {
		was, is := before[n], now[n]
		switch {
		case processes != nil && !processes.Running(n):
			lines = append(lines, fmt.Sprintf("node %s has no process", n))
		case was.Epoch > 0 && is.Epoch > was.Epoch:
			lines = append(lines, fmt.Sprintf("node %s has started again, as epoch %d after %d", n, is.Epoch, was.Epoch))
		case was.Refused == "" && is.Refused != "":
			lines = append(lines, fmt.Sprintf("node %s is refused: %s", n, is.Refused))
		default:
			lines = append(lines, fmt.Sprintf("nothing shows that the process of node %s has ended", n))
			all = false
		}
	}
	return strings.Join(lines, "; "), all
}

// silentFor is how long a node that is stopped is waited for in vain.
const silentFor = 500 * time.Millisecond

// silent returns the proof of faults that stop nodes where they stand: none of them answers.
func silent(s *Scene, nodes []string) proof {
	return func(ctx context.Context) (string, bool, error) {
		err := each.Of(nodes, len(nodes), func(n string) error {
			ctx, cancel := context.WithTimeout(ctx, silentFor)
			defer cancel()
			if s.Cluster.WaitReady(ctx, n) == nil {
				return fmt.Errorf("node %s answers", n)
			}
			return nil
		})
		if err != nil {
			return err.Error(), false, nil //nolint:nilerr // the answer is what is reported
		}
		return "no node that was hit answers: " + strings.Join(nodes, ", "), true, nil
	}
}

// A node that is stopped for moments, over and over, takes so long for one of its answers within this time; else it
// answers within milliseconds.
const (
	hesitates    = 100 * time.Millisecond
	hesitatesFor = 2 * time.Second
)

// hesitant returns the proof of faults that stop nodes for moments, over and over: one of several answers of each takes
// long.
func hesitant(s *Scene, nodes []string) proof {
	return func(ctx context.Context) (string, bool, error) {
		lines := make([]string, 0, len(nodes))
		all := true
		for _, n := range nodes {
			longest := slowestAnswer(ctx, s, n)
			lines = append(lines, fmt.Sprintf("an answer of node %s took %v", n, longest.Round(time.Millisecond)))
			all = all && longest >= hesitates
		}
		return strings.Join(lines, "; "), all, nil
	}
}

// slowestAnswer asks a node until an answer takes long, and returns how long the slowest one took.
func slowestAnswer(ctx context.Context, s *Scene, node string) (longest time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, hesitatesFor)
	defer cancel()
	for longest < hesitates {
		begin := time.Now()
		_ = s.Cluster.WaitReady(ctx, node) // how long that takes is what counts
		longest = max(longest, time.Since(begin))
		if wait.For(ctx, pollEvery) != nil {
			break
		}
	}
	return longest
}
