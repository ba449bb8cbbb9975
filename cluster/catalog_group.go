package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/raftfsm"
)

// catalogGroup is this node's member of the catalog group.
type catalogGroup struct {
	c     *Cluster
	group *raftfsm.Group[catalog.Reply, metadata.NoEffects]
	admission

	opened catalog.Version // the finalised version that the files had

	givenUp    atomic.Pointer[error]           // why the member is to be built anew; nil: it is not
	members    chan struct{}                   // of capacity 1: who is to be a member may have changed
	joined     chan struct{}                   // of capacity 1: the catalog knows this node now, and did not before
	promise    atomic.Pointer[datadir.Promise] // written by the founding loop after the disk has it
	registered atomic.Uint64                   // catalog index of this start's registration; 0: not yet
	unlike     atomic.Pointer[error]           // nodes whose Expect is another, as last seen; nil: none
	// leaderless is since when ready has seen no leader, in nanoseconds of the monotonic
	// clock; 0: it has one. ledOnce tells that it had one before.
	leaderless atomic.Int64
	ledOnce    atomic.Bool
	seatedOnce atomic.Bool // seated found nothing missing once in this life

	assurance *assurance
}

// leaderlessGrace is how long a node stays ready while the catalog elects a leader: its
// queues go on meanwhile, and whoever asks the catalog waits as long (RE-5, RE-6).
const leaderlessGrace = 5 * time.Second

const (
	// catalogRetry is the wait between attempts to reach the catalog's leader.
	catalogRetry = 50 * time.Millisecond
	// catalogAttempt bounds one attempt.
	catalogAttempt = 2 * time.Second
	// catalogPush is how long after a change the other nodes are told that it is committed.
	// Who made it waits until they have it (EX-15).
	catalogPush = 2 * time.Millisecond
	// firstElection bounds the wait for a new group's first candidate to stand.
	firstElection = 500 * time.Millisecond
)

func openCatalog(c *Cluster) (*catalogGroup, error) {
	p, err := c.dir.Promise()
	if err != nil {
		return nil, err
	}
	g := &catalogGroup{
		c: c, members: make(chan struct{}, 1), joined: make(chan struct{}, 1), admission: admission{parts: make(chan struct{}, 1)},
		assurance: newAssurance(c.cfg.CatalogStaleness, c.cfg.Clock),
	}
	g.promise.Store(&p)
	g.taken.Store(c.dir.Store().Admitted)
	found, whole := c.dir.CatalogFound()
	g.part.Store(TakesPart(found.Last > 0, whole, c.dir.Store().Admitted, p.Founder != ""))
	if err := g.open(); raftfsm.Damaged(err) && c.dir.Store().Admitted {
		c.log.Error("this node's member of the catalog group is damaged: it does not take part until the group has been seen without it", "error", err)
		if err := c.dir.GiveUpCatalog(err); err != nil {
			return nil, err
		}
		g.part.Store(false)
		if err := g.open(); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	return g, nil
}

// open opens what is stored.
func (g *catalogGroup) open() error {
	c := g.c
	storage, err := raftfsm.OpenBolt(filepath.Join(c.dir.Catalog(), datadir.CatalogLog))
	if err != nil {
		return fmt.Errorf("cluster: opening the catalog's log: %w", err)
	}
	snapshots, err := raftfsm.OpenSnapshots(filepath.Join(c.dir.Catalog(), datadir.SnapshotsDir), storage)
	if err != nil {
		return errors.Join(fmt.Errorf("cluster: opening the catalog's snapshots: %w", err), storage.Close())
	}
	g.group, err = raftfsm.Open(raftfsm.Config[catalog.Reply, metadata.NoEffects]{
		Group:     id.CatalogGroup,
		Node:      c.cfg.Node,
		Machine:   metadata.NewMachine(c.views, c.events, g.membersChange),
		Storage:   storage,
		Snapshots: snapshots,
		Transport: c.mux.Raft(id.CatalogGroup),
		Logger:    c.log,
		Driven:    true,
		PushAfter: catalogPush,
		Hangs:     c.disks.Hangs,
		Scarce:    c.disks.Low,
		Clock:     c.clock.Moment,
	})
	if err != nil {
		return errors.Join(fmt.Errorf("cluster: opening the catalog group: %w", err), storage.Close())
	}
	g.opened = c.View().Version()
	return nil
}

// founded tells whether the member has state: it was bootstrapped, or a leader has
// written to it.
func (g *catalogGroup) founded() bool {
	s := g.group.Stats()
	return s.LastIndex > 0 || s.SnapshotIndex > 0
}

// leader returns the group's leader if it is alive, as far as this node knows: the group
// itself remembers one until there is another.
func (g *catalogGroup) leader() id.NodeID {
	if !g.c.liveness.Led(id.CatalogGroup) {
		return ""
	}
	leader, _ := g.group.Leader()
	return leader
}

// watch lets liveness see what becomes of the member, once it takes part.
func (g *catalogGroup) watch() {
	for known := false; ; {
		changed := g.group.Changed()
		switch {
		case known:
			g.c.liveness.Changed(id.CatalogGroup)
		case g.part.Load():
			g.c.liveness.Add(id.CatalogGroup, g.group)
			known = true
		}
		if g.group.Failed() != nil {
			g.assurance.revoke()
		}
		select {
		case <-changed:
		case <-g.parts:
		case <-g.c.ctx.Done():
			return
		}
	}
}

// ProposeCatalog puts a catalog command through and waits until this node's view shows
// it (EX-15). A catalog.Error in the reply comes back as the error. A command of a version
// that is not finalised yet is refused.
//
// The command is repeated until it is answered: every catalog command states what shall
// be, so that a repeat changes nothing. After a repeat Created and Deleted may be false
// although this call did it; Repeated says so.
func (c *Cluster) ProposeCatalog(ctx context.Context, cmd catalog.Command) (catalog.Reply, error) {
	if err := catalog.CheckCommand(cmd); err != nil {
		return catalog.Reply{}, fmt.Errorf("cluster: catalog command: %w", err)
	}
	if refused := c.View().Allows(cmd); refused != nil {
		return catalog.Reply{Err: refused}, refused
	}
	ctx, cancel := c.commandContext(ctx)
	defer cancel()
	r, repeated, err := c.catalog.propose(ctx, catalog.AppendCommand(nil, cmd))
	if err != nil {
		return catalog.Reply{}, err
	}
	r.Repeated = repeated
	if r.Err != nil {
		return r, r.Err
	}
	if err := c.views.Await(ctx, r.Index); err != nil {
		return r, fmt.Errorf("%w: the catalog took the command at index %d, but this node has not caught up in time: "+
			"check its links to the other nodes", traffic.ErrUnknownOutcome, r.Index)
	}
	c.spreading.Await(ctx, r.Index)
	return r, nil
}

// proposer is the catalog as the host of members needs it.
type proposer struct{ c *Cluster }

// Propose is of replica.Catalog.
func (p proposer) Propose(ctx context.Context, cmd catalog.Command) (catalog.Reply, error) {
	return p.c.ProposeCatalog(ctx, cmd)
}

// Registered is of replica.Catalog.
func (p proposer) Registered() uint64 { return p.c.catalog.registered.Load() }

// commandContext bounds a command without a leader (RE-5), and ends it with the node.
func (c *Cluster) commandContext(ctx context.Context) (context.Context, context.CancelFunc) {
	var cancel context.CancelFunc
	if d := c.cfg.CommandTimeout; d > 0 {
		ctx, cancel = context.WithTimeout(ctx, d)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	release := context.AfterFunc(c.ctx, cancel)
	return ctx, func() { release(); cancel() }
}

// propose tries the leader, or whoever may know it, until a leader answers. repeated tells
// that an earlier attempt may have taken effect before the one that was answered.
func (g *catalogGroup) propose(ctx context.Context, command []byte) (r catalog.Reply, repeated bool, err error) {
	var hint id.NodeID
	var last error
	unknown := false
	for attempt := 0; ; attempt++ {
		to := hint
		if to == "" {
			to = g.target(attempt)
		}
		hint = ""
		if to != "" {
			r, leader, err := g.proposeAt(ctx, to, command)
			if err == nil {
				return r, unknown, nil
			}
			unknown = unknown || !errors.Is(err, errNotProposed)
			last, hint = err, leader
			if hint == to {
				hint = ""
			}
		}
		if hint != "" && attempt%4 != 3 {
			continue // a redirect needs no wait, unless nodes send one another around
		}
		if err := wait.For(ctx, catalogRetry); err != nil {
			return catalog.Reply{}, unknown, g.unavailable(unknown, last)
		}
	}
}

func (g *catalogGroup) unavailable(unknown bool, last error) error {
	if g.c.ctx.Err() != nil {
		return fmt.Errorf("%w: catalog command", traffic.ErrClosed)
	}
	kind := traffic.ErrUnavailable
	if unknown {
		kind = traffic.ErrUnknownOutcome
	}
	if last == nil {
		last = errors.New("no node that may lead it is connected")
	}
	return fmt.Errorf("%w: catalog group: check that a majority of its nodes runs and is connected: %w", kind, last)
}

// target returns the node to ask: the leader, else the connected nodes in turn. The member of
// a node whose disk hangs may take itself for the leader after others have elected one.
func (g *catalogGroup) target(attempt int) id.NodeID {
	if leader := g.leader(); leader != "" && !g.c.disks.Hangs() {
		return leader
	}
	var near []id.NodeID
	for _, n := range g.c.gossip() {
		if _, up := g.c.mux.Connected(n.ID); up && n.ID != g.c.cfg.Node {
			near = append(near, n.ID)
		}
	}
	if len(near) == 0 {
		return ""
	}
	return near[attempt%len(near)]
}

// errNotProposed marks attempts that have left nothing in the log.
var errNotProposed = errors.New("cluster: not proposed")

func (g *catalogGroup) proposeAt(ctx context.Context, to id.NodeID, command []byte) (catalog.Reply, id.NodeID, error) {
	ctx, cancel := context.WithTimeout(ctx, catalogAttempt)
	defer cancel()
	if to == g.c.cfg.Node {
		return g.proposeHere(ctx, command)
	}
	peer, err := g.c.mux.Client(to)
	if err != nil {
		return catalog.Reply{}, "", fmt.Errorf("%w: %w", errNotProposed, err)
	}
	answer, err := peer.ProposeCatalog(ctx, &nodev1.ProposeCatalogRequest{Command: command})
	if err != nil {
		return catalog.Reply{}, "", fmt.Errorf("asking node %q: %w", to, err)
	}
	if answer.GetNotLeader() {
		leader := id.NodeID(answer.GetLeader())
		return catalog.Reply{}, leader, fmt.Errorf("%w: node %q does not lead it", errNotProposed, to)
	}
	r, err := catalog.DecodeReply(answer.GetReply())
	if err != nil {
		return catalog.Reply{}, "", fmt.Errorf("answer of node %q: %w", to, err)
	}
	return r, "", nil
}

func (g *catalogGroup) proposeHere(ctx context.Context, command []byte) (catalog.Reply, id.NodeID, error) {
	// The group keeps the bytes until it has answered, and that may be after ctx's end.
	r, err := g.group.Propose(ctx, raftfsm.Command{Header: slices.Clone(command)})
	if err == nil {
		return r, "", nil
	}
	var redirect *raftfsm.NotLeaderError
	switch {
	case errors.As(err, &redirect):
		return catalog.Reply{}, redirect.Leader, fmt.Errorf("%w: %w", errNotProposed, err)
	case errors.Is(err, raftfsm.ErrBusy), errors.Is(err, raftfsm.ErrStopped):
		return catalog.Reply{}, "", fmt.Errorf("%w: %w", errNotProposed, err)
	}
	return catalog.Reply{}, "", err
}

// proposeFor proposes for a peer. A newer one may send what this build cannot read: that is
// refused here, for in the log it would stop this member.
func (g *catalogGroup) proposeFor(ctx context.Context, command []byte) (catalog.Reply, id.NodeID, error) {
	if leader, _ := g.group.Leader(); leader != g.c.cfg.Node {
		return catalog.Reply{}, leader, fmt.Errorf("%w: node %q does not lead the catalog", errNotProposed, g.c.cfg.Node)
	}
	if _, err := catalog.DecodeCommand(command); err != nil {
		return catalog.Reply{Err: &catalog.Error{
			Code: catalog.CodePreconditionFailed, Kind: "command",
			Reason: fmt.Sprintf("node %q, which leads the catalog, cannot read it: %v", g.c.cfg.Node, err),
		}}, "", nil
	}
	return g.proposeHere(ctx, command)
}

// led tells whether the catalog has a leader, or had one a moment ago.
func (g *catalogGroup) led() bool {
	if g.leader() != "" {
		g.ledOnce.Store(true)
		g.leaderless.Store(0)
		return true
	}
	now := g.c.clock.Elapsed()
	g.leaderless.CompareAndSwap(0, int64(now))
	return g.ledOnce.Load() && now-time.Duration(g.leaderless.Load()) < leaderlessGrace
}

// ready tells what is missing before this node can do its part.
func (g *catalogGroup) ready() error {
	if err := g.reached(); err != nil {
		return err
	}
	if !g.assurance.serves.Load() {
		return errors.New("cluster: catalog view is not confirmed yet: asking the catalog's leader")
	}
	return g.seated()
}

// reached tells what is missing before the view shows this node's registration.
func (g *catalogGroup) reached() error {
	if err := g.able(); err != nil {
		return err
	}
	if !g.founded() {
		if err := g.unlike.Load(); err != nil {
			return *err
		}
		seen := g.c.alive()
		return fmt.Errorf("cluster: node %q is not in the cluster %q yet: founding takes %d nodes, %d are seen: %q; "+
			"if others run, check that cluster name and key are alike on all, and the addresses to join: %q",
			g.c.cfg.Node, g.c.cfg.Name, g.c.cfg.Expect, len(seen), seen, g.c.cfg.Join)
	}
	if !g.led() {
		return errors.New("cluster: catalog group has no leader: waiting for a majority of its nodes")
	}
	return g.admitted()
}

// able tells why this node will not take part, whatever it waits for.
func (g *catalogGroup) able() error {
	if err := g.refusal(); err != nil {
		return err
	}
	if err := g.group.Failed(); err != nil {
		return fmt.Errorf("cluster: catalog group has failed on this node: %w", err)
	}
	return nil
}

// admitted tells what is missing before the view shows that the catalog takes this node.
func (g *catalogGroup) admitted() error {
	if err := g.able(); err != nil {
		return err
	}
	if want, have := g.registered.Load(), g.c.views.View().Index(); want == 0 || have < want {
		return fmt.Errorf("cluster: catalog view is catching up: at index %d of %d", have, want)
	}
	return nil
}

// Joined has one element once the catalog has taken this node that it did not know, or had given up.
func (c *Cluster) Joined() <-chan struct{} { return c.catalog.joined }
