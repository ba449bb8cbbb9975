package run

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/chaos/check"
	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/each"
	"github.com/quorate/quorate/internal/wait"
)

const (
	// restTimeout bounds the wait for members to come to rest.
	restTimeout = 15 * time.Second
	restEvery   = 200 * time.Millisecond
	// wakeTimeout bounds the wait for members that hibernate.
	wakeTimeout = 10 * time.Second
	// backTimeout bounds the wait for resources to be given back. Go collects what was used last only after two minutes
	// without work, and gives memory back after that.
	backTimeout = 3 * time.Minute
	// leakLength is how long a run must be for its resources to be compared: in less, nodes that fill their
	// caches, or lead what others led, look as if they leaked.
	leakLength = 5 * time.Minute
	// warmTime is how long nodes fill their caches under load before their use of resources is recorded.
	warmTime = 2 * time.Minute
	// scrapeTimeout bounds the answer with a node's metrics.
	scrapeTimeout = 2 * time.Second
)

// ours returns the queues of the run, in order of their names.
func ours(ctx context.Context, cfg Config, c *client.Client) ([]string, error) {
	var out []string
	for q, err := range c.Queues(ctx, client.ListQueuesRequest{VHost: cfg.VHost}) {
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(q.Name, cfg.Prefix+".") && q.Type == "quorum" {
			out = append(out, q.Name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// digests records the state of each member of each queue of the run, as soon as all members of the queue have
// applied the same entries, or when nobody waits any longer.
func digests(ctx context.Context, cfg Config, c *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, restTimeout)
	defer cancel()
	queues, err := ours(ctx, cfg, c)
	if err != nil {
		return fmt.Errorf("run: queues whose members are compared: %w", err)
	}
	// Several at a time: those of a queue that hibernates wake first, and come to rest when they have elected a leader.
	return each.Of(queues, askedAtOnce, func(queue string) error {
		digestsOf(ctx, cfg, c, queue)
		return nil
	})
}

// digestsOf is digests for one queue.
func digestsOf(ctx context.Context, cfg Config, c *client.Client, queue string) {
	seen := looks{}
	for {
		members, err := client.Collect(c.QueueMembers(ctx, client.ListQueueMembersRequest{VHost: cfg.VHost, Queue: queue, Digests: true}))
		if client.ClassOf(err) == client.NotFound {
			return // deleted meanwhile
		}
		if together := seen.add(members); together != nil {
			recordDigests(cfg.History, queue, together)
			return
		}
		if wait.For(ctx, restEvery) != nil {
			cfg.Log("the members of %s were not seen at one index: %+v %v", queue, members, err)
			recordDigests(cfg.History, queue, members)
			return
		}
	}
}

// awaken wakes the members of all queues of the run, and waits until they answer, but not for long: a node may be away that
// the run has not hit. The figures of a queue that hibernates are what the node has kept that led it last. If the queue was
// used while that node was cut off, they are old, and a queue with messages would be taken for drained. No fault comes
// later that makes them old again.
func awaken(ctx context.Context, cfg Config, c *client.Client) {
	ctx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	queues, err := ours(ctx, cfg, c)
	if err == nil {
		err = each.Of(queues, askedAtOnce, func(queue string) error {
			for !awake(ctx, cfg, c, queue) {
				if err := wait.For(ctx, restEvery); err != nil {
					return fmt.Errorf("queue %s: %w", queue, err)
				}
			}
			return nil
		})
	}
	if err != nil {
		cfg.Log("not all members answer when queues are drained: %v", err)
	}
}

// awake wakes the members of a queue, and reports whether all of them answer, or the queue is gone.
func awake(ctx context.Context, cfg Config, c *client.Client, queue string) bool {
	members, err := client.Collect(c.QueueMembers(ctx, client.ListQueueMembersRequest{VHost: cfg.VHost, Queue: queue}))
	if err != nil {
		return client.ClassOf(err) == client.NotFound
	}
	return !slices.ContainsFunc(members, func(m client.QueueMember) bool { return m.Trouble != "" })
}

// looks are the members that were seen with a digest, by their applied index: while a queue is still
// changing, members are seldom all at one index at once.
type looks map[uint64]map[string]client.QueueMember

// add takes one look, and returns all members as they were at one index, nil if they were not yet.
func (l looks) add(members []client.QueueMember) (together []client.QueueMember) {
	for _, m := range members {
		if m.Digest == "" || m.Raft == nil {
			continue
		}
		at := m.Raft.AppliedIndex
		if l[at] == nil {
			l[at] = map[string]client.QueueMember{}
		}
		if l[at][m.Node] = m; len(l[at]) == len(members) {
			return slices.Collect(maps.Values(l[at]))
		}
	}
	return nil
}

// recordDigests records the members that have digests.
func recordDigests(h *history.History, queue string, members []client.QueueMember) {
	for _, m := range members {
		if m.Digest != "" && m.Raft != nil {
			h.Add(history.Event{Kind: history.Digest, Queue: queue, Node: m.Node, Index: m.Raft.AppliedIndex, Note: m.Digest})
		}
	}
}

// figures are what is compared between begin and end, by the names of check.LeakSlack, with the names of
// metrics.
func figures() map[string]string {
	return map[string]string{
		"go_goroutines": "goroutines", "process_open_fds": "open_files", "process_resident_memory_bytes": "resident_bytes",
		"quorate_log_disk_bytes": "disk_bytes",
	}
}

// warm records what each node uses at the first moment after warmTime at which no fault lasts, if that comes
// before ctx ends, and returns it; else nil. A node that does not report it keeps what was recorded before.
func warm(ctx context.Context, cfg Config, before map[string]map[string]float64) map[string]map[string]float64 {
	seen, open := 0, 0
	for wait.For(ctx, restEvery) == nil {
		for _, e := range cfg.History.Since(seen) {
			seen++
			switch e.Kind {
			case history.Fault:
				open++
			case history.Healed:
				open--
			default:
			}
		}
		if open > 0 || cfg.History.Now() < warmTime {
			continue
		}
		out := maps.Clone(before)
		maps.Copy(out, resources(ctx, cfg, history.Warm, nil))
		return out
	}
	return nil
}

// resources records what each node uses; note is history.Cold, Warm or End. At the end it waits for what comes back by itself.
func resources(ctx context.Context, cfg Config, note string, before map[string]map[string]float64) map[string]map[string]float64 {
	out := map[string]map[string]float64{}
	for _, n := range cfg.Cluster.Nodes() {
		if n.HTTP == "" {
			continue
		}
		resting, cancel := context.WithTimeout(ctx, backTimeout)
		for {
			got, err := scrape(resting, n.HTTP)
			if err == nil {
				out[n.ID] = got
			}
			if err == nil && len(check.Leaks(before, got)) == 0 || wait.For(resting, restEvery) != nil {
				break
			}
		}
		cancel()
		if out[n.ID] == nil {
			cfg.Log("node %s does not report its resources", n.ID)
			continue
		}
		cfg.History.Add(history.Event{Kind: history.Resources, Node: n.ID, Figures: out[n.ID], Note: note})
	}
	return out
}

// scrape returns the figures of one node's metrics.
func scrape(ctx context.Context, address string) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	names, out := figures(), map[string]float64{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		metric, value, _ := strings.Cut(lines.Text(), " ")
		if name := names[metric]; name != "" {
			if out[name], err = strconv.ParseFloat(value, 64); err != nil {
				return nil, fmt.Errorf("run: metric %s of %s: %w", metric, address, err)
			}
		}
	}
	return out, lines.Err()
}
