package operators

import (
	"context"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cluster/nodeclock"
	"github.com/quorate/quorate/cluster/vitals"
	"github.com/quorate/quorate/id"
)

// ClusterStatus is the state of the cluster as this node sees it.
type ClusterStatus struct {
	Cluster, Node string
	CatalogLeader string
	CatalogIndex  uint64
	Finalised     int // version of stored state
	Nodes         []NodeStatus
	// Hindrance is why this node does not serve clients; "" if it does. ViewAge is how old its view of the catalog
	// may be; negative: the view was never confirmed.
	Hindrance string
	ViewAge   time.Duration
}

// NodeStatus is the state of one node as this node sees it.
type NodeStatus struct {
	ID            string
	Epoch         uint64
	ClientAddress string
	Version       string
	Alive         bool   // by gossip or, with TLS between nodes, by a link
	Connected     bool   // to this node
	Refused       string // why this node refuses it; "": it does not
	Replicas      int
	Leaders       int
	// Answers reports that the node has answered when it was asked; the fields up to Counters are
	// its answer.
	Answers  bool
	Draining bool
	Start    StartProgress
	Reads    int // newest version of stored state that it reads
	Counters map[string]uint64
	Vitals   *Vitals // nil: not reported, as by nodes of older builds
	Lost     int     // members of queues that have lost what they had stored and wait to be rebuilt
	Disk     *Disk   // as the node has sent it; nil: it has sent nothing
	Clock    *Clock  // as this node has measured it; nil: it has not, or not recently
}

// Vitals are what a node uses, and how long its confirms and syncs take.
type Vitals = vitals.Figures

// Memory is what a node has of the memory, in bytes.
type Memory = vitals.Memory

// Clock is the state of a node's wall clock (TTL-8).
type Clock struct {
	Offset time.Duration // from the time of the cluster
	Error  time.Duration // the possible error of the offset
	Grade  string        // how sure the node is of the time of the cluster
	Off    bool          // the offset is above the limit
}

// clockOf returns nil if nothing was measured.
func clockOf(c *nodeclock.Status) *Clock {
	if c == nil {
		return nil
	}
	return &Clock{Offset: c.Offset, Error: c.Error, Grade: c.Grade.String(), Off: c.Off}
}

// Disk is the state of the disk that a node's data directory is on.
type Disk struct {
	Pressure   string // none, low or floor
	Path       string
	Free       uint64        // bytes
	Size       uint64        // bytes of the file system; 0: not known
	Low, Floor uint64        // limits of Free; 0: none
	Hangs      time.Duration // for how long a write has been under way, if that is too long; 0: it is not
	Stopped    int           // members that wait for room
	Refused    uint64        // publishes refused for lack of room, since the node's start
	Moved      uint64        // leaders moved to other nodes for lack of room, since the node's start
}

// diskOf returns nil if the node has sent nothing.
func diskOf(d *disk.State) *Disk {
	if d == nil {
		return nil
	}
	return &Disk{
		Pressure: d.Pressure.String(), Path: d.Path, Free: d.Free, Size: d.Size, Low: d.Low, Floor: d.Floor,
		Hangs: d.Hangs, Stopped: d.Stopped, Refused: d.Refused, Moved: d.Moved,
	}
}

// StartProgress is the progress of a node's start.
type StartProgress = cluster.StartProgress

// ClusterStatus returns the state of the cluster. With details it also asks every node.
func (o *Operators) ClusterStatus(ctx context.Context, details bool) (ClusterStatus, error) {
	c := o.cluster
	s, err := c.Status(ctx)
	if err != nil {
		return ClusterStatus{}, failure.Translate(err, failure.Error{Kind: "cluster", Name: s.Name})
	}
	out := ClusterStatus{
		Cluster: s.Name, Node: string(s.Node), CatalogLeader: string(s.CatalogLeader), CatalogIndex: s.CatalogIndex,
		Finalised: int(s.Finalised),
		Nodes:     make([]NodeStatus, len(s.Nodes)), ViewAge: -1,
	}
	if err := o.serving.Serves(); err != nil {
		out.Hindrance = serving.Hindrance(c.Catalog()).Error()
	}
	if age, known := c.Catalog().ViewAge(); known {
		out.ViewAge = age
	}
	var said map[id.NodeID]cluster.NodeDetails
	if details {
		if said, err = c.NodeDetails(ctx); err != nil {
			return ClusterStatus{}, failure.Translate(err, failure.Error{Kind: "cluster", Name: s.Name})
		}
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		out.Nodes[i] = NodeStatus{
			ID: string(n.ID), Epoch: uint64(n.Epoch), ClientAddress: n.ClientAddr, Version: n.Version,
			Alive: n.Alive, Connected: n.Connected, Refused: n.Refused, Replicas: n.Replicas, Leaders: n.Leaders, Disk: diskOf(n.Disk), Clock: clockOf(n.Clock),
		}
		d, answers := said[n.ID]
		out.Nodes[i].Answers, out.Nodes[i].Draining, out.Nodes[i].Start = answers, d.Draining, d.Start
		out.Nodes[i].Counters, out.Nodes[i].Reads, out.Nodes[i].Vitals, out.Nodes[i].Lost = d.Counters, int(d.Reads), d.Vitals, d.Lost
	}
	return out, nil
}

// HeldVersion is why a node keeps a version from being finalised.
type HeldVersion = metadata.HeldVersion

// Finalise finalises the newest version of stored state that this node reads, and returns the
// version before and now. With dryRun it changes nothing, and returns which nodes hold it back.
func (o *Operators) Finalise(ctx context.Context, dryRun bool) (before, now int, held []HeldVersion, err error) {
	c := o.cluster
	do := c.Catalog().Finalise
	if dryRun {
		do = c.Catalog().Versions
	}
	v, err := do(ctx)
	if err != nil {
		name, _ := c.Name()
		return 0, 0, nil, failure.Translate(err, failure.Error{Kind: "cluster", Name: name})
	}
	if !dryRun && v.Newest != v.Finalised {
		audit.NotesOf(ctx).Note(audit.Change{Field: "version", Before: strconv.Itoa(int(v.Finalised)), After: strconv.Itoa(int(v.Newest))})
	}
	return int(v.Finalised), int(v.Newest), v.Held, nil
}

// TransferLeadership moves the leadership of a queue to one of its members. If node is empty, the
// leader chooses.
func (o *Operators) TransferLeadership(ctx context.Context, vhost, queue, node string) error {
	c := o.cluster
	rec, err := serving.LookUp(c.View(), vhost, queue)
	if err != nil {
		return err
	}
	about := failure.Error{VHost: vhost, Kind: "queue", Name: queue}
	if node != "" && !isMember(rec.Members, node) {
		about.Class, about.State, about.Arg, about.Value = failure.PreconditionFailed, true, "node", node
		about.Reason = "is not a member of the queue; choose one of its members"
		return &about
	}
	err = c.Leaders().Transfer(ctx, rec.UID, id.NodeID(node))
	if err == nil {
		audit.NotesOf(ctx).Note(audit.Change{Field: "leader", After: node})
	}
	return failure.Translate(err, about)
}

// QueueMember is the state of one member of a queue, as the member itself reports it.
type QueueMember struct {
	Node string
	// State is leader, follower or candidate; "": the node did not answer, and the figures are zero.
	State                                                     string
	Leader                                                    string // "": it knows no leader
	Term, CommitIndex, AppliedIndex, SnapshotIndex, LastIndex uint64
	// Digest is a hash of the member's state at AppliedIndex, in hexadecimal; "" unless it was asked
	// for, and while entries are being applied.
	Digest string
	// Trouble is why the member has stopped, or why its node did not answer.
	Trouble string
}

// QueueMembers asks all members of a queue for their state. A digest costs a node as much as a
// snapshot of the queue.
func (o *Operators) QueueMembers(ctx context.Context, vhost, queue string, digests bool) ([]QueueMember, error) {
	rec, err := serving.LookUp(o.cluster.View(), vhost, queue)
	if err != nil {
		return nil, err
	}
	members := o.cluster.Leaders().AllMembers(ctx, rec.UID, digests)
	out := make([]QueueMember, len(members))
	for i, m := range members {
		g := m.Group
		out[i] = QueueMember{
			Node: string(m.Node), State: m.State(), Leader: g.GetLeader(), Trouble: m.Trouble, Digest: hex.EncodeToString(g.GetStateDigest()),
			Term: g.GetTerm(), CommitIndex: g.GetCommitIndex(), AppliedIndex: g.GetAppliedIndex(), SnapshotIndex: g.GetSnapshotIndex(), LastIndex: g.GetLastIndex(),
		}
	}
	return out, nil
}

// isMember reports whether node, a name that an operator gave, is one of the members.
func isMember(members []id.NodeID, node string) bool {
	for _, m := range members {
		if string(m) == node {
			return true
		}
	}
	return false
}
