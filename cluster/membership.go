package cluster

import (
	"context"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/leader"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// changeMemberships makes the parts that change who is a member of what. The catalog's group is
// open, and nothing of them runs yet.
func (c *Cluster) changeMemberships() {
	members, nodes := membersPart{c}, nodesPart{c}
	c.leaders = leader.New(leader.Config{
		Node: c.cfg.Node, View: c.View, Members: c.host, Links: c.mux, Own: calls{c: c}, CommandTimeout: c.cfg.CommandTimeout, Life: c.ctx,
	})
	c.changeSlots = make(chan struct{}, membership.MaxMemberChanges)
	c.changes = membership.NewChanger(membership.ChangerConfig{
		Node: c.cfg.Node, Logger: c.log, Views: c.views, Catalog: c.catalog, Members: members, Leaders: c.leaders,
		Slots: c.changeSlots, Reconfigured: c.liveness.Changed,
	})
	c.unloader = membership.NewUnloader(membership.UnloaderConfig{
		Node: c.cfg.Node, Logger: c.log, View: c.View, Catalog: c.catalog, Members: members,
		Links: c.mux, Disks: c.disks, Peers: c.peers, Operations: c.operations, Life: c.ctx,
	})
	placer := membership.NewPlacer(membership.PlacerConfig{
		Node: c.cfg.Node, Epoch: c.epoch, View: c.View, Links: c.mux, Catalog: c.catalog, Members: members, Nodes: nodes, Disks: c.disks, Rooms: c.rooms, Life: c.ctx,
	})
	c.operator = membership.NewOperator(membership.OperatorConfig{
		Node: c.cfg.Node, Logger: c.log, Views: c.views, Catalog: c.catalog, Links: c.mux, Leaders: c.leaders, Placer: placer, Unloader: c.unloader,
		Jobs: c.jobs, Judge: c.judge, Events: c.events, CommandTimeout: c.cfg.CommandTimeout, Life: c.ctx,
	})
	c.reconciler = membership.NewReconciler(membership.ReconcilerConfig{
		Settings: c.cfg.Reconcile, Node: c.cfg.Node, Logger: c.log, View: c.View, Catalog: c.catalog, Members: members, Nodes: nodes, Links: c.mux,
		Leaders: c.leaders, Placer: placer, Operator: c.operator, Policies: c.policies, Judge: c.judge, Disks: c.disks, Events: c.events,
		Operations: c.operations, CommandTimeout: c.cfg.CommandTimeout, Life: c.ctx,
	})
}

// Leaders asks the leaders of queues, wherever they are.
func (c *Cluster) Leaders() *leader.Leaders { return c.leaders }

// Operator carries out what operators ask for, and declares queues.
func (c *Cluster) Operator() *membership.Operator { return c.operator }

// Unloader takes off this node what it leads.
func (c *Cluster) Unloader() *membership.Unloader { return c.unloader }

// Reconciler keeps queues at their size, and their leaders even.
func (c *Cluster) Reconciler() *membership.Reconciler { return c.reconciler }

// membersPart are this node's members of queues as membership sees them.
type membersPart struct{ c *Cluster }

func membersOf(all []*replica.Member) []membership.Member {
	out := make([]membership.Member, len(all))
	for i, q := range all {
		out[i] = membership.Member{Queue: q.UID(), Group: q.Group(), Leads: q.Leads(), Led: func() bool { return q.Led() != nil }, Life: q.Life()}
	}
	return out
}

// Open is of membership.Members.
func (p membersPart) Open() []membership.Member { return membersOf(p.c.host.Members()) }

// Changing is of membership.Members.
func (p membersPart) Changing() []membership.Member { return membersOf(p.c.host.Changing()) }

// Loads is of membership.Members.
func (p membersPart) Loads(v *catalog.View) map[id.NodeID]membership.Load {
	all := map[id.NodeID]membership.Load{}
	for n, l := range p.c.host.Loads(v) {
		all[n] = membership.Load{Replicas: l.Replicas, Leaders: l.Leaders}
	}
	return all
}

// Current is of membership.Members.
func (p membersPart) Current(v *catalog.View) bool { return p.c.host.Current(v) }

// LostMembers is of membership.Members.
func (p membersPart) LostMembers() []id.QueueUID { return p.c.host.LostMembers() }

// Mends is of membership.Members.
func (p membersPart) Mends() <-chan struct{} { return p.c.host.Mends() }

// Changes is of membership.Members.
func (p membersPart) Changes() <-chan struct{} { return p.c.host.Changes() }

// Joined is of membership.Members.
func (p membersPart) Joined(q id.QueueUID) uint64 { return p.c.dir.Joined(q) }

// nodesPart asks nodes what they host.
type nodesPart struct{ c *Cluster }

// Own is of membership.Nodes.
func (p nodesPart) Own(ctx context.Context) (*nodev1.NodeStatusResponse, error) {
	return calls{c: p.c}.NodeStatus(ctx, &nodev1.NodeStatusRequest{})
}

// Started is of membership.Nodes.
func (p nodesPart) Started(r *nodev1.NodeStatusResponse) bool {
	return StartPhase(r.GetStart().GetPhase()) == StartDone
}
