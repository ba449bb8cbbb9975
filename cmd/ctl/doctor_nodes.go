package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/checks"
)

const (
	// slowSync is the time of one sync of the log in a hundred from which a disk is a problem, as for the alert
	// QuorateSyncsSlow.
	slowSync = 500 * time.Millisecond
	// figuresWait is how long the doctor waits for what nodes do now.
	figuresWait = 5 * time.Second
	// bundleLines is how many of the newest lines of a node's log are in a bundle: all that nodes keep.
	bundleLines = 2000
)

// sampling is what nodes do now, as far as it came in time.
type sampling struct {
	sample client.ClusterSample
	err    error
}

// begin gathers what nodes do now while other things are looked at; it comes once. Times and rates need two rounds of
// questions to the nodes, which takes some seconds if nobody else is watching.
func (d *diagnosis) begin(ctx context.Context) <-chan sampling {
	done := make(chan sampling, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, figuresWait)
		defer cancel()
		x, err := sampled(ctx, d.Client, client.WatchClusterRequest{Limit: onceQueues}, figuresWait)
		done <- sampling{x, err}
	}()
	return done
}

// figures looks at what nodes do now. A sample without times is better than none.
func (d *diagnosis) figures(s sampling) []checks.Problem {
	if s.err != nil && s.sample.At.IsZero() {
		return []checks.Problem{missing("figures", s.err)}
	}
	d.keep("figures", plain(s.sample))
	return strained(s.sample.Nodes)
}

// strained finds nodes whose disk is slow, or whose memory is nearly what they hold publishers back at.
func strained(nodes []client.NodeFigures) (found []checks.Problem) {
	for _, n := range nodes {
		of := "node " + n.ID
		if n.SyncP99 != nil {
			if took := time.Duration(*n.SyncP99) * time.Microsecond; took >= slowSync {
				found = append(found, checks.Problem{
					Check: "disks", Object: of, Problem: fmt.Sprintf("one sync of its log in a hundred takes %v", took.Round(time.Millisecond)),
					Remedy: "look at its disk and at what else writes there: confirms wait for it",
				})
			}
		}
		if n.Memory != nil && n.MemoryHigh > 0 && float64(*n.Memory) >= nearShare*float64(n.MemoryHigh) {
			found = append(found, checks.Problem{
				Check: "limits", Object: of, Problem: fmt.Sprintf("%d bytes of memory are in use, and it holds publishers back above %d", *n.Memory, n.MemoryHigh),
				Remedy: "give it more memory, or move queues and clients to other nodes",
			})
		}
	}
	return found
}

// logs keeps the newest lines of each node's log, a file for each. A node that does not answer hides no other one.
func (d *diagnosis) logs(cmd *cobra.Command) []checks.Problem {
	var one sync.Mutex // nodes answer at the same time
	texts := map[string]*strings.Builder{}
	err := d.session.onNodes(cmd, nil, false, func(ctx context.Context, c *client.Client) error {
		return c.TailLog(ctx, client.TailLogRequest{Limit: bundleLines}, func(x client.LogLines) error {
			one.Lock()
			defer one.Unlock()
			if texts[x.Node] == nil {
				texts[x.Node] = &strings.Builder{}
			}
			for _, l := range x.Lines {
				fmt.Fprintln(texts[x.Node], logText(x.Node, l))
			}
			return nil
		})
	})
	for node, text := range texts {
		d.files["log-"+url.PathEscape(node)+".txt"] = []byte(text.String())
	}
	if err != nil {
		return []checks.Problem{missing("logs", err)}
	}
	return nil
}

// bounded is what metrics show of something that a node has a limit for.
type bounded struct{ used, limit, what, remedy string }

func boundedByMetrics() []bounded {
	const clients = `{gate="clients"}`
	return []bounded{
		{"process_open_fds", "process_max_fds", "file descriptors", "raise its limit of open files: without one, it closes connections of clients"},
		{"quorate_gate_connections" + clients, "quorate_gate_connections_limit" + clients, "connections of clients", "raise limits.connections, or spread clients over the nodes"},
	}
}

// shortOf finds in the text of a node's metrics what is nearly used up. What the text does not have is no problem.
func shortOf(url, metrics string) (found []checks.Problem) {
	values := map[string]float64{}
	for line := range strings.Lines(metrics) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			values[name] = v
		}
	}
	for _, b := range boundedByMetrics() {
		used, limit := values[b.used], values[b.limit]
		if limit > 0 && used >= nearShare*limit {
			found = append(found, checks.Problem{
				Check: "limits", Object: "the node of " + url, Problem: fmt.Sprintf("%.0f of %.0f %s are used", used, limit, b.what), Remedy: b.remedy,
			})
		}
	}
	return found
}
