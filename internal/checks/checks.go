// Package checks looks for what is wrong in a cluster, and for reasons against taking a node down. The commands of
// quoratectl and the operator of Kubernetes decide by it.
package checks

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/majority"
)

// Problem is one thing that a check has found.
type Problem struct {
	Check   string `api:"check"`
	Object  string `api:"object"`
	Problem string `api:"problem"`
	Remedy  string `api:"remedy"`
}

// Look is what checks examine. Its methods change nothing, and belong to one goroutine at a time.
type Look struct {
	Client *client.Client
	Status client.ClusterStatus // with details
	Node   string               // "": all
	// IgnoreAlone leaves out queues with one member: their declarers accepted that they stand still with their node.
	IgnoreAlone bool
}

// started is the phase of a node that has started.
const started = "started"

// NodeState describes a node's state in a word or two.
func NodeState(n client.ClusterNode) string {
	at := n.Start
	switch {
	case n.Refused != "":
		return "refused"
	case at == nil && n.Alive:
		return "silent" // it gossips but does not answer
	case at == nil:
		return "down"
	case n.Draining:
		return "draining"
	case at.Phase != started:
		return at.Phase
	}
	return "running"
}

// nodes returns those that are checked.
func (l *Look) nodes() []client.ClusterNode {
	return slices.DeleteFunc(slices.Clone(l.Status.Nodes), func(n client.ClusterNode) bool { return l.Node != "" && n.ID != l.Node })
}

// Ready finds nodes that serve no clients.
func (l *Look) Ready() (found []Problem) {
	remedies := map[string]string{
		"refused":  "see quoratectl nodes ls and the node's log",
		"silent":   "it gossips and does not answer: look at its log, its load and the network",
		"down":     "start it with its disk",
		"draining": "restart it, or quoratectl nodes undrain",
	}
	for _, n := range l.nodes() {
		state := NodeState(n)
		if state == "running" {
			continue
		}
		remedy, is := remedies[state]
		if !is {
			remedy = "it starts: see quoratectl nodes status"
		}
		found = append(found, Problem{"ready", "node " + n.ID, "it is " + state, remedy})
	}
	if l.Status.CatalogLeader == "" {
		found = append(found, Problem{"ready", "catalog", "it has no leader: nothing can be declared", "see that a majority of the nodes runs and that they reach each other"})
	}
	return found
}

// Rebuilding finds nodes with members that count for nothing although the node is there, or that do not answer whether they
// have some. Those of the given node do not matter when it is the one that goes.
func (l *Look) Rebuilding() (found []Problem) {
	for _, n := range l.Status.Nodes {
		of := majority.Node{Name: n.ID, Connected: n.Connected, Answers: n.Start != nil, Lost: uint64(n.LostMembers)}
		if f, is := majority.OfNode(of, l.Node); is {
			found = append(found, Problem{"quorum-critical", "node " + n.ID, f.Problem, f.Remedy})
		}
	}
	return found
}

// QuorumCritical finds queues that lack a majority, or would if one node more went, be it the given one, and what Rebuilding
// finds.
func (l *Look) QuorumCritical(ctx context.Context) (found []Problem, err error) {
	found = l.Rebuilding()
	for q, err := range l.Client.Queues(ctx, client.ListQueuesRequest{WithStats: true}) {
		if err != nil {
			return nil, err
		}
		if l.IgnoreAlone && len(q.Members) == 1 {
			continue
		}
		if p, is := Critical(q, l.Node); is {
			found = append(found, p)
		}
	}
	return found, nil
}

// Critical reports whether a queue stands still, or would without the node; "": without any one node.
func Critical(q client.QueueInfo, node string) (Problem, bool) {
	f, is := majority.OfQueue(q.Members, q.Online, node)
	return Problem{"quorum-critical", fmt.Sprintf("queue %q in vhost %q", q.Name, q.VHost), f.Problem, f.Remedy}, is
}

// Alarms finds nodes that take no messages, or soon will not.
func (l *Look) Alarms() (found []Problem) {
	for _, n := range l.nodes() {
		of := "node " + n.ID
		if d := n.Disk; d != nil && d.Pressure != "none" {
			found = append(found, Problem{
				"alarms", of, fmt.Sprintf("%d bytes are free on %s, which is below its limit %s (%d bytes)", d.FreeBytes, d.Path, d.Pressure, map[string]uint64{"low": d.LowBytes, "floor": d.FloorBytes}[d.Pressure]),
				"free space there, make the volume larger, or move queues to other nodes",
			})
		}
		if d := n.Disk; d != nil && d.Hangs > 0 {
			found = append(found, Problem{"alarms", of, fmt.Sprintf("a write to %s hangs for %v", d.Path, d.Hangs), "look at the disk"})
		}
		if c := n.Clock; c != nil && c.Off {
			found = append(found, Problem{"alarms", of, fmt.Sprintf("its wall clock is %v off", c.Offset), "check that NTP runs and is synchronised there"})
		}
	}
	return found
}

// Builds returns the builds of the nodes that answer, sorted.
func Builds(nodes []client.ClusterNode) (builds []string) {
	for _, n := range nodes {
		if n.Start != nil && !slices.Contains(builds, n.Version) {
			builds = append(builds, n.Version)
		}
	}
	slices.Sort(builds)
	return builds
}

// Versions finds an upgrade that is under way.
func (l *Look) Versions() (found []Problem) {
	newest := l.Status.FinalizedVersion
	for _, n := range l.Status.Nodes {
		newest = max(newest, n.ReadsVersion)
	}
	if builds := Builds(l.Status.Nodes); len(builds) > 1 {
		found = append(found, Problem{"versions", "cluster", fmt.Sprintf("nodes run %q", builds), "finish the upgrade, node by node"})
	}
	if newest > l.Status.FinalizedVersion {
		found = append(found, Problem{
			"versions", "cluster", fmt.Sprintf("version %d is finalised, nodes can read %d", l.Status.FinalizedVersion, newest),
			"once all nodes run the newer build: quoratectl upgrade finalize",
		})
	}
	return found
}

// TakingDown finds reasons against taking down the node, or any one node: another node that is away or short of disk,
// a queue that would stand still, and an operation, such as a move of members, that is under way.
func (l *Look) TakingDown(ctx context.Context) ([]Problem, error) {
	critical, err := l.QuorumCritical(ctx)
	if err != nil {
		return nil, err
	}
	all := &Look{Client: l.Client, Status: l.Status} // what is wrong on other nodes counts, too
	found := slices.Concat(all.Ready(), all.Alarms(), critical)
	for o, err := range l.Client.Operations(ctx, client.ListOperationsRequest{Running: true}) {
		if silent, is := errors.AsType[*client.SilentNodesError](err); is {
			return append(found, l.silent(silent.Nodes)...), nil
		}
		if err != nil {
			return nil, err
		}
		found = append(found, Problem{
			"operations", "operation " + o.ID, o.Kind + " is under way", "wait for its end: quoratectl operations watch " + o.ID,
		})
	}
	return found, nil
}

// silent finds nodes that did not answer which operations they run. The given one does not matter: what it ran has ended, or ends
// with it.
func (l *Look) silent(nodes []string) []Problem {
	others := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return n == l.Node })
	if len(others) == 0 {
		return nil
	}
	problem := (&client.SilentNodesError{Nodes: others}).Error()
	return []Problem{{"operations", "cluster", problem, "see that all nodes run before another one is taken down"}}
}
