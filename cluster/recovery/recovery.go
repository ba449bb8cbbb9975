// Package recovery takes the groups up again whose majority is lost for good, on a node that does
// not run (docs/adr/0010): it reads what the node has stored, compares it with the reports of the
// others that are left, and lets each group go on with the newest log. It needs the data
// directory, the node's log and a replay of the catalog.
package recovery

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/storage"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// Config describes the recovery of groups whose majority is lost for good, on one
// of the nodes that are left. The node must not run.
type Config struct {
	Name    string
	Node    id.NodeID
	DataDir string
	// Lost are the nodes that never come back.
	Lost []id.NodeID
	// Reports are what Recovery.Report was on the other nodes that are left.
	Reports []Report
	Logger  *slog.Logger // nil: nothing is logged
}

// Report is what a node has stored, for the recovery on another one.
type Report struct {
	Cluster string                        `json:"cluster"`
	Node    id.NodeID                     `json:"node"`
	Groups  map[id.GroupID]raftfsm.Stored `json:"groups"`
	// Version is the finalised version in the node's catalog; 0: a build wrote the report that did not say it.
	Version catalog.Version `json:"version,omitempty"`
}

// Action is what is done about a group.
type Action string

// The actions.
const (
	// Nothing: a majority of its members is left; it elects by itself, unless the members of Group.Bare have lost
	// what they had and the rest are no majority.
	Nothing Action = "keeps its majority"
	// Here: this node has the newest log that is left; the group continues with it.
	Here Action = "goes on with this node's log"
	// Elsewhere: another node has the newest log that is left.
	Elsewhere Action = "goes on with another node's log"
	// Empty: no member with anything of it is left; it starts over, without messages.
	Empty Action = "begins anew, all its messages are lost"
	// Declare: no such member is left; it has to be deleted and declared again, as the catalog runs without this node, or
	// as all members are on nodes that are left: what these have of it, which cannot be read, stays until then.
	Declare Action = "is lost: delete the queue and declare it again"
	// Unknown: a report of a node that is left is missing.
	Unknown Action = "cannot be decided"
)

// Group is what a recovery does about a group.
type Group struct {
	Group       id.GroupID
	VHost, Name string // of the queue; empty for the catalog
	Members     []id.NodeID
	Lost        []id.NodeID // of the members
	Left        []id.NodeID // of the members
	Logs        map[id.NodeID]raftfsm.Stored
	Newest      id.NodeID // of Left; "": none
	Action      Action
	Missing     []id.NodeID // of Left: their reports are needed
	Bare        []id.NodeID // of the members that are left: they have nothing of it

	term uint64 // above all that are known
}

// String names the group as an operator does.
func (g *Group) String() string {
	if g.Group == id.CatalogGroup {
		return "the catalog"
	}
	return fmt.Sprintf("queue %q in vhost %q", g.Name, g.VHost)
}

// Recovery is an opened node that does not run. Its methods belong to one goroutine.
type Recovery struct {
	// Report is what this node has stored.
	Report Report
	// Groups are the catalog and the queues, sorted; those that lose nothing included.
	Groups []Group
	// Forgotten are the lost nodes that the catalog will no longer know; the others are members of queues that keep
	// their majority.
	Forgotten []id.NodeID

	c       Config
	dir     *datadir.Dir
	storage *storage.Storage
	cat     *raftfsm.Resting
	view    *catalog.View
}

// withQueue opens this node's member of a queue for f.
func (r *Recovery) withQueue(q id.QueueUID, f func(*raftfsm.Resting) error) error {
	dir := r.dir.Queue(q)
	log, err := r.storage.Queue(q)
	if err != nil {
		return fmt.Errorf("cluster: reading the member of queue %s: %w", q, err)
	}
	m, err := raftfsm.OpenResting(q.Group(), filepath.Join(dir, datadir.SnapshotsDir), log)
	if err != nil {
		return fmt.Errorf("cluster: reading the member of queue %s: %w", q, err)
	}
	return errors.Join(f(m), m.Close())
}

// checkNames refuses nodes that the cluster does not know, and reports of others.
func (r *Recovery) checkNames() error {
	var faults []error
	known := func(n id.NodeID) bool {
		_, is := r.view.Node(n)
		return is || r.votes(n)
	}
	for _, n := range r.c.Lost {
		if !known(n) {
			faults = append(faults, fmt.Errorf("cluster: lost node %q is not in the cluster: it knows %q", n, r.nodes()))
		}
	}
	for i := range r.c.Reports {
		p := &r.c.Reports[i]
		switch {
		case p.Cluster != r.c.Name:
			faults = append(faults, fmt.Errorf("cluster: a report is of cluster %q, this node is of %q", p.Cluster, r.c.Name))
		case slices.Contains(r.c.Lost, p.Node):
			faults = append(faults, fmt.Errorf("cluster: there is a report of node %q, so it is not lost: start it instead", p.Node))
		}
	}
	return errors.Join(faults...)
}

// votes reports whether a node is a voter of a group, as its members have stored it. The catalog may have
// forgotten the node already, if an earlier run was broken off before a queue was recovered.
func (r *Recovery) votes(n id.NodeID) bool {
	for _, p := range append([]Report{r.Report}, r.c.Reports...) {
		for _, s := range p.Groups {
			if slices.Contains(s.Voters, n) {
				return true
			}
		}
	}
	return false
}

// nodes are those of the replayed catalog, the lost ones included.
func (r *Recovery) nodes() []id.NodeID {
	var out []id.NodeID
	for n := range r.view.Nodes() {
		out = append(out, n.ID)
	}
	return out
}

// Run carries the plan out. It is refused while a report is missing, or nothing is to be
// done here. A repeat after a crash is fine.
func (r *Recovery) Run() error {
	missing := map[id.NodeID]bool{}
	todo := false
	for i := range r.Groups {
		g := &r.Groups[i]
		for _, n := range g.Missing {
			if g.Action == Unknown {
				missing[n] = true
			}
		}
		todo = todo || g.Action == Here
	}
	if len(missing) > 0 {
		return fmt.Errorf("cluster: nodes %q are not named as lost, and their logs may be newer than this one's: bring a report of each, or name it as lost",
			slices.Sorted(maps.Keys(missing)))
	}
	if !todo {
		return errors.New("cluster: nothing is to be recovered on this node: every group keeps its majority, or goes on with the log of another node")
	}
	// From here on the lost nodes are refused, whatever the catalog says.
	if err := r.dir.Refuse(r.c.Lost); err != nil {
		return err
	}
	for i := range r.Groups[1:] {
		if err := r.force(&r.Groups[1+i]); err != nil {
			return err
		}
	}
	if cat := &r.Groups[0]; cat.Action == Here {
		// Last: only now its commands are true of the queues, and what those were given is durable.
		err := r.cat.Force(cat.term, cat.Left, time.Now().UnixMilli(), r.commands())
		if err != nil {
			return err
		}
		r.c.Logger.Info("the catalog goes on with this node's log", "lost", cat.Lost, "voters", cat.Left)
	}
	return nil
}

// force gives a queue's group on this node its new voters.
func (r *Recovery) force(g *Group) error {
	left, empty := g.Left, g.Action == Empty && r.Groups[0].Action == Here
	if g.Action != Here && !empty {
		return nil
	}
	uid := id.QueueUID(g.Group)
	if empty {
		left = []id.NodeID{r.c.Node}
		// A member here that is damaged counts as one that has nothing, and must not be in the way.
		if err := errors.Join(r.storage.DropQueue(uid), r.storage.Begin(uid)); err != nil {
			return err
		}
	}
	err := r.withQueue(uid, func(m *raftfsm.Resting) error {
		return m.Force(g.term, left, time.Now().UnixMilli(), r.renumbering())
	})
	if err == nil {
		r.c.Logger.Info("queue recovered", "queue", uid.String(), "name", g.Name, "vhost", g.VHost, "lost", g.Lost, "voters", left, "empty", empty)
	}
	return err
}

// renumbering is what a recovered queue applies first: its log may lack dead letters that their targets remember. Before
// the version that brought the command is finalised, a member that is left may not be able to read it.
func (r *Recovery) renumbering() []raftfsm.Command {
	if r.finalised() < catalog.VersionSealed {
		return nil
	}
	return []raftfsm.Command{{Header: quorumq.AppendCommand(nil, &quorumq.Renumber{})}}
}

// finalised returns the newest version that a node which is left knows to be finalised. This node's catalog may be
// older than the one with which the cluster continues. No build that is left is too old for the version: a version is
// only finalised when all nodes can read it.
func (r *Recovery) finalised() catalog.Version {
	version := r.view.Version()
	for i := range r.c.Reports {
		version = max(version, r.c.Reports[i].Version)
	}
	return version
}

// commands record in the catalog who is left, and keep the UIDs of queues that it has lost from new ones.
func (r *Recovery) commands() (out []raftfsm.Command) {
	add := func(c catalog.Command) { out = append(out, raftfsm.Command{Header: catalog.AppendCommand(nil, c)}) }
	if skip := (&catalog.SkipQueueUIDs{}); catalog.Since(skip) <= r.view.Version() {
		add(skip)
	}
	for i := range r.Groups[1:] {
		g := &r.Groups[1+i]
		left := g.Left
		switch g.Action {
		case Empty:
			left = []id.NodeID{r.c.Node}
		case Nothing:
			q, _ := r.view.QueueByUID(id.QueueUID(g.Group))
			if len(g.Lost) > 0 || !slices.ContainsFunc(r.c.Lost, q.Holds) {
				continue
			}
			// Recovered before this run, which had broken off: the catalog has yet to know.
		case Declare:
			continue
		case Here, Elsewhere, Unknown:
		}
		add(&catalog.SetQueueMembers{UID: id.QueueUID(g.Group), Members: left, Leader: cmp.Or(g.Newest, left[0])})
	}
	for _, n := range r.Forgotten {
		add(&catalog.ForgetNode{ID: n})
	}
	return out
}

// Close releases the data directory.
func (r *Recovery) Close() error {
	var errs []error
	if r.cat != nil {
		errs = append(errs, r.cat.Close())
	}
	if r.storage != nil {
		errs = append(errs, r.storage.Close())
	}
	return errors.Join(append(errs, r.dir.Close())...)
}
