package cluster

import (
	"context"

	"github.com/quorate/quorate/cluster/leader"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// changeMemberships makes the parts that change who is a member of what. The catalog's group is
// open, and nothing of them runs yet.
func (c *Cluster) changeMemberships() {
	nodes := nodesPart{c}
	c.leaders = leader.New(leader.Config{
		Node: c.cfg.Node, View: c.View, Members: c.host, Transport: c.mux, Own: c.calls(), CommandTimeout: c.cfg.CommandTimeout, Life: c.ctx,
	})
	c.changeSlots = make(chan struct{}, membership.MaxMemberChanges)
	c.changes = membership.NewChanger(membership.ChangerConfig{
		Node: c.cfg.Node, Logger: c.log, Views: c.views, Catalog: c.catalog, Members: c.host, Leaders: c.leaders,
		Slots: c.changeSlots, Reconfigured: c.liveness.Changed,
	})
	c.unloader = membership.NewUnloader(membership.UnloaderConfig{
		Node: c.cfg.Node, Logger: c.log, View: c.View, Catalog: c.catalog, Members: c.host,
		Transport: c.mux, Disks: c.disks, Peers: c.peers, Operations: c.operations, Life: c.ctx,
	})
	placer := membership.NewPlacer(membership.PlacerConfig{
		Node: c.cfg.Node, Epoch: c.epoch, View: c.View, Transport: c.mux, Catalog: c.catalog, Members: c.host, Nodes: nodes, Disks: c.disks, Rooms: c.rooms, Life: c.ctx,
	})
	c.operator = membership.NewOperator(membership.OperatorConfig{
		Node: c.cfg.Node, Logger: c.log, Views: c.views, Catalog: c.catalog, Members: c.host, Transport: c.mux, Leaders: c.leaders, Placer: placer, Unloader: c.unloader,
		Jobs: c.jobs, Judge: c.judge, Events: c.events, CommandTimeout: c.cfg.CommandTimeout, Life: c.ctx,
	})
	c.reconciler = membership.NewReconciler(membership.ReconcilerConfig{
		Settings: c.cfg.Reconcile, Node: c.cfg.Node, Logger: c.log, View: c.View, Catalog: c.catalog, Members: c.host, Nodes: nodes, Transport: c.mux,
		Leaders: c.leaders, Placer: placer, Operator: c.operator, Policies: c.policies, Judge: c.judge, Disks: c.disks, Events: c.events,
		Operations: c.operations, CommandTimeout: c.cfg.CommandTimeout, Life: c.ctx,
	})
}

// nodesPart asks nodes what they host.
type nodesPart struct{ c *Cluster }

// Own implements membership.Nodes.
func (p nodesPart) Own(ctx context.Context) (*nodev1.NodeStatusResponse, error) {
	return p.c.calls().NodeStatus(ctx, &nodev1.NodeStatusRequest{})
}

// Started implements membership.Nodes.
func (p nodesPart) Started(r *nodev1.NodeStatusResponse) bool {
	return StartPhase(r.GetStart().GetPhase()) == StartDone
}

// Steady implements membership.Nodes.
func (p nodesPart) Steady(n id.NodeID) bool { return p.c.liveness.Steady(n) }
