package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/cluster/export"
	"github.com/quorate/quorate/cluster/forwarding"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/gossip"
	"github.com/quorate/quorate/cluster/liveness"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cluster/nodeclock"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/cluster/peer"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/cluster/vitals"
	"github.com/quorate/quorate/deadletter"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/policy"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Start joins the cluster, or founds it with Config.Expect others, and recovers what the
// data directory holds. It returns when the node serves its peers; Ready reports when it
// can serve clients. ctx bounds Start alone.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := &Cluster{cfg: cfg.withDefaults(), clients: clients.New(), views: metadata.NewViews(catalog.New().View())}
	c.log = c.cfg.Logger.With("node", string(c.cfg.Node))
	c.clock = nodeclock.New(nodeclock.Config{Node: c.cfg.Node, Source: c.cfg.Clock, Skew: c.cfg.ClockSkew, Logger: c.log})
	c.events = event.NewJournal(event.JournalConfig{
		Node: c.cfg.Node, Logger: c.log, View: c.View, NowMs: c.clock.NowMs, StartedMs: c.clock.StartedMs,
	})
	c.disks = disk.NewBoard(c.cfg.Node, c.cfg.DataDir, gateway.MaxWaitingBytes, c.log)
	c.reach = newReach()
	c.links = &linking{missing: c.unlinked}
	c.policies = &policy.Matcher{Warn: func(vhost string, err error) {
		c.cfg.Logger.Warn("a policy's pattern takes too long", "vhost", vhost, "error", err)
	}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.disked, c.undisk = context.WithCancel(context.Background())
	c.starts(StartProgress{Phase: StartLog})
	var err error
	if c.dir, err = datadir.Open(c.cfg.DataDir, c.cfg.Name, c.cfg.Node); err != nil {
		c.stop()
		c.undisk()
		return nil, err
	}
	if err := c.boot(); err != nil {
		return nil, errors.Join(err, c.shutdown(ctx))
	}
	c.booted.Store(true)
	return c, nil
}

// boot starts the parts, those first on which others rest. After an error, shutdown
// stops those that run.
func (c *Cluster) boot() error {
	var err error
	whole, fault, err := c.dir.CheckCatalog()
	if err != nil {
		return err
	}
	if !whole {
		c.log.Error("this node's member of the catalog group has lost what it had stored: it does not take part until the group has been seen without it",
			"error", fault)
	}
	if c.epoch, err = c.dir.NextEpoch(c.cfg.Logger); err != nil {
		return err
	}
	c.dir.Mend(c.log)
	c.operations = operation.New(operation.Config{Node: c.cfg.Node, Epoch: c.epoch})
	c.loops.Go(c.reportStart)
	if err := c.openStorage(); err != nil {
		return err
	}
	c.starts(StartProgress{Phase: StartCatalog})
	if err := c.connect(); err != nil {
		return err
	}
	if c.catalog, err = c.openCatalog(); err != nil {
		return err
	}
	c.pace = export.New(export.Config{Floor: c.cfg.ExportFloor, Confirms: c.ConfirmTimes, Syncs: c.SyncTimes})
	c.host = c.newHost()
	c.hosted.Store(c.host)
	c.rooms = &disk.Rooms{Board: c.disks, View: c.View, Connected: func(n id.NodeID) bool { _, up := c.mux.Connected(n); return up }}
	c.gateway = gateway.New(gateway.Config{
		Node: c.cfg.Node, Epoch: c.epoch, Logger: c.cfg.Logger, ConfirmTimeout: c.cfg.ConfirmTimeout, CommandTimeout: c.cfg.CommandTimeout,
		PublishWindow: c.cfg.PublishWindow, Views: c.views, Members: c.host, Transport: c.mux, Disks: c.disks, Rooms: c.rooms,
	})
	c.vitals = vitals.New(vitals.Sources{
		MemoryPlan: c.cfg.MemoryPlan, Confirms: c.gateway.ConfirmTimes(), Syncs: c.storage.SyncTimes(),
		Caches: func() (bodies, tail int64) { kept, _ := c.Caches(); return kept.Bodies, kept.Tail },
	})
	c.forwarders = forwarding.New(deadletter.Config{Tracer: c.cfg.Tracer, Logger: c.cfg.Logger}, c.DeadLetterRouter(), forwarding.Sender{Gateway: c.gateway}, c.EmitQueue)
	c.changeMemberships()
	c.members, err = gossip.Start(gossip.Config{
		Cluster: c.cfg.Name,
		Node: gossip.Node{
			ID: c.cfg.Node, Epoch: c.epoch, Store: c.dir.Store().Name,
			PeerAddr: c.cfg.PeerAddr, ClientAddr: c.cfg.ClientAddr, Version: c.cfg.Version,
		},
		BindAddr: c.cfg.GossipAddr, Advertise: c.cfg.GossipHost,
		Join: c.cfg.Join, Key: c.cfg.Key, Gate: c.cfg.Gossip, Logger: c.log,
		Waits: func() { c.starts(StartProgress{Phase: StartName}) },
	})
	if err != nil {
		return err
	}
	if c.starting.Load().Phase == StartName {
		c.starts(StartProgress{Phase: StartCatalog})
	}
	disks := &disk.Watch{
		Board: c.disks, Log: c.storage, Transport: c.mux, Groups: diskGroups{c}, Alive: c.alive, Every: heartbeatEvery,
		Hang: c.cfg.DiskHang, Failed: c.cfg.Failed, Logger: c.log,
	}
	disks.Look() // before members are opened
	c.host.Start(replica.Above{Gateway: c.gateway, Forwarders: c.forwarders, HandOver: c.unloader.HandOver})
	c.loops.Go(func() {
		if err := c.mux.Serve(c.cfg.Peers); err != nil {
			c.log.Error("serving peers", "error", err)
		}
	})
	c.loops.Go(c.followGossip)
	c.loops.Go(func() {
		c.clock.Run(c.ctx, heartbeatEvery, nodeclock.Listener{Nodes: c.nodeCount, TimeSet: c.host.TimeSet, Emit: c.events.EmitNode})
	})
	c.loops.Go(c.catalog.Run)
	c.loops.Go(func() { c.givenUp.Follow(c.ctx, c.views, c.catalog.Registered) })
	c.loops.Go(func() { c.changes.Run(c.ctx.Done()) })
	if !c.cfg.Reconcile.Disabled {
		c.loops.Go(c.reconciler.KeepSizes)
		c.loops.Go(c.reconciler.Repair)
	}
	c.loops.Go(func() { c.liveness.Run(c.ctx) })
	c.marking.Go(c.keepMark)
	c.loops.Go(func() { disks.Run(c.disked) })
	c.loops.Go(func() { disks.Notify(c.ctx) })
	c.loops.Go(func() { c.unloader.Evacuate(c.ctx) })
	c.loops.Go(func() { c.unloader.Relieve(c.ctx) })
	return nil
}

// connect prepares the transport, and what is judged by them.
func (c *Cluster) connect() error {
	var err error
	if c.givenUp, err = metadata.ReadGivenUp(c.dir, c.log); err != nil {
		return err
	}
	if c.admission, err = metadata.ReadAdmission(c.dir); err != nil {
		return err
	}
	c.judge = metadata.NewJudge(c.View, c.givenUp, c.log)
	c.liveness, err = liveness.New(liveness.Config{
		Node: c.cfg.Node, Transport: lateMux{c}, Dead: c.dead, Logger: c.log,
		Drains: func(n id.NodeID) bool { return c.mux.Drains(n) }, SuspectAfter: c.cfg.SuspectAfter, Judged: c.reach.judged,
	})
	if err != nil {
		return err
	}
	c.meet()
	c.mux, err = transport.New(transport.Config{
		Node: c.cfg.Node, Epoch: c.epoch, Store: c.dir.Store().Name, Fresh: c.admission.FreshStore, Began: c.admission.Began, Cluster: c.cfg.Name, Key: c.cfg.Key, TLS: c.cfg.TLS,
		Handler: duplex{c}, Calls: c.calls(), Absent: func(g id.GroupID) bool { return c.host.Absent(g) }, Logger: c.log,
		Heartbeats: c.liveness, Clock: c.clock, HeartbeatEvery: heartbeatEvery, PingEvery: pingEvery,
		Refuse: c.judge.Refuses, Refused: func(n id.NodeID, why string) { c.catalog.RefusedBy(n, why) }, Ended: func(n id.NodeID) { c.host.Ended(n) },
		Silent: func(g id.GroupID) bool { return g == id.CatalogGroup && !c.admission.TakesPart() },
		Reads:  uint8(catalog.NewestVersion), Finalised: func() uint8 { return uint8(c.View().Version()) },
		// A connection that is given up is lost, so that must not come first.
		PingTimeout: max(time.Second, 2*c.cfg.SuspectAfter),
	})
	if err != nil {
		return err
	}
	c.wired.Store(c.mux)
	return c.storage.Failed() // it may have come before
}

// meet makes what asks the other nodes and answers them, in what the clients of all have open, in jobs, events and logs.
func (c *Cluster) meet() {
	client := func(n id.NodeID) (nodev1.NodeClient, error) { return c.mux.Client(n) } // the transport answers by these parts
	c.peers = &peer.Peers{Node: c.cfg.Node, View: c.View, Client: client, Life: c.ctx}
	c.everywhere = peer.NewClients(c.peers, c.clients, c.epoch, c.StoredBytes)
	c.jobs = peer.NewOperations(c.peers, c.operations)
	c.watched = peer.NewEvents(c.peers, c.events, c.epoch, c.views.Next)
	c.logs = peer.NewLogs(c.peers, c.cfg.Lines, c.epoch)
}
