package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/cluster/gossip"
	"github.com/quorate/quorate/cluster/letters"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Status returns the state of the cluster.
func (c *Cluster) Status(ctx context.Context) (Status, error) {
	if err := ctx.Err(); err != nil {
		return Status{}, err
	}
	v := c.View()
	s := Status{
		Name: c.cfg.Name, Node: c.cfg.Node, Epoch: c.epoch,
		CatalogLeader: c.catalog.Leader(), CatalogIndex: v.Index(), Finalised: v.Version(),
	}
	at, now := map[id.NodeID]int{}, time.Now()
	clocks := c.clock.Figures()
	add := func(n gossip.Node) {
		_, connected := c.mux.Connected(n.ID)
		at[n.ID] = len(s.Nodes)
		connected = connected || n.ID == c.cfg.Node
		if c.cfg.TLS != nil && !connected {
			n.Alive = false // whoever can gossip can name a node; its certificate says more
		}
		status := NodeStatus{Node: n, Connected: connected, Disk: c.disks.Of(n.ID), Clock: clocks.Of(n.ID)}
		if k, knocks := c.judge.Of(n.ID, now); knocks && !status.Connected {
			status.Refused = k.Why
		}
		s.Nodes = append(s.Nodes, status)
	}
	for _, n := range c.gossip() {
		if _, registered := v.Node(n.ID); registered || n.Alive || n.ID == c.cfg.Node {
			add(n) // gossip remembers those for a while that were taken out
		}
	}
	for n := range v.Nodes() {
		if _, known := at[n.ID]; !known {
			add(gossip.Node{ID: n.ID, Epoch: n.Epoch, PeerAddr: n.Address, ClientAddr: n.ClientAddress})
		}
	}
	for n, l := range c.host.Loads(v) {
		if i, known := at[n]; known {
			s.Nodes[i].Replicas, s.Nodes[i].Leaders = l.Replicas, l.Leaders
		}
	}
	return s, nil
}

// Room returns disk.ErrNoSpace with what is short if a queue takes no messages for want of it,
// else nil.
func (c *Cluster) Room(uid id.QueueUID) error { return c.rooms.Of(uid) }

// Warning tells what an operator should look at although the node serves; "": nothing.
func (c *Cluster) Warning() string {
	if w := c.disks.Warning(); w != "" {
		return w
	}
	if c.host != nil {
		if n := len(c.host.LostMembers()); n > 0 {
			return fmt.Sprintf("%d members on this node have lost what they had stored and wait to be rebuilt", n)
		}
	}
	return c.clock.Warning()
}

// QueueStatus returns a queue's state, read from its leader.
func (c *Cluster) QueueStatus(ctx context.Context, q id.QueueUID) (QueueStatus, error) {
	return c.statusOf(ctx, q, false)
}

// QueueFigures is QueueStatus for those who only look: a queue that hibernates is not woken,
// but has the figures that it had, which nothing has changed since. If its members were
// cut off from each other since, they may be old.
func (c *Cluster) QueueFigures(ctx context.Context, q id.QueueUID) (QueueStatus, error) {
	return c.statusOf(ctx, q, true)
}

func (c *Cluster) statusOf(ctx context.Context, q id.QueueUID, kept bool) (QueueStatus, error) {
	ctx, cancel := c.commandContext(ctx)
	defer cancel()
	var out QueueStatus
	err := c.atLeader(ctx, q, func(to id.NodeID) (id.NodeID, error) {
		r, err := c.askStatus(ctx, to, &nodev1.QueueStatusRequest{Queue: uint64(q), Kept: kept})
		if err != nil {
			return "", err
		}
		if !r.GetHasOverview() {
			leader := id.NodeID(r.GetLeader())
			if _, up := c.mux.Connected(leader); r.GetHibernated() && (leader == to || leader != c.cfg.Node && !up) {
				kept = false // who has the figures is gone: another one must lead
			}
			return leader, fmt.Errorf("node %q does not lead it", to)
		}
		if err := json.Unmarshal(r.GetOverview(), &out.Overview); err != nil {
			return "", fmt.Errorf("overview from node %q: %w", to, err)
		}
		out.Group, out.Leader = r.GetGroup(), to
		out.DeadLetters = letters.DeadLetters{
			BacklogTrouble: r.GetBacklogTrouble(), Waiting: r.GetWaiting(), Retries: r.GetRetries(), Lost: r.GetLost(),
		}
		return "", nil
	})
	if err != nil {
		return QueueStatus{}, err
	}
	if r, ok := c.View().QueueByUID(q); ok {
		out.Members = slices.Clone(r.Members)
		for _, m := range r.Members {
			if _, up := c.mux.Connected(m); up || m == c.cfg.Node {
				out.Online = append(out.Online, m)
			}
		}
	}
	return out, nil
}

func (c *Cluster) statusAt(ctx context.Context, to id.NodeID, q id.QueueUID) (*nodev1.QueueStatusResponse, error) {
	return c.askStatus(ctx, to, &nodev1.QueueStatusRequest{Queue: uint64(q)})
}

func (c *Cluster) askStatus(ctx context.Context, to id.NodeID, request *nodev1.QueueStatusRequest) (*nodev1.QueueStatusResponse, error) {
	if to == c.cfg.Node {
		return calls{c: c}.QueueStatus(ctx, request)
	}
	peer, err := c.mux.Client(to)
	if err != nil {
		return nil, err
	}
	return peer.QueueStatus(ctx, request)
}

// leaderRetry is the first wait of atLeader; later ones double up to leaderRetryMost.
const (
	leaderRetry     = 5 * time.Millisecond
	leaderRetryMost = 50 * time.Millisecond
)

// atLeader tries f at the node that should lead a queue, and again elsewhere as f's
// answer names another or fails, until ctx ends.
func (c *Cluster) atLeader(ctx context.Context, q id.QueueUID, f func(id.NodeID) (id.NodeID, error)) error {
	var hint id.NodeID
	var last error
	for attempt := 0; ; attempt++ {
		r, ok := c.View().QueueByUID(q)
		if !ok {
			return fmt.Errorf("%w: queue %s is not in this node's view of the catalog", traffic.ErrNoSuchQueue, q)
		}
		to := hint
		if to == "" {
			to, _ = c.host.LeaderOf(q)
		}
		if to == "" {
			to = r.Members[attempt%len(r.Members)]
		}
		var err error
		if hint, err = f(to); err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err // more telling than that time is up
		}
		// A new queue has its leader within milliseconds.
		if wait.For(ctx, min(leaderRetry<<min(attempt, 10), leaderRetryMost)) == nil {
			continue
		}
		if c.ctx.Err() != nil {
			return fmt.Errorf("%w: queue %q", traffic.ErrClosed, r.Name)
		}
		if last == nil {
			last = errors.New("none of its members has answered")
		}
		return fmt.Errorf("%w: queue %q (%s) in vhost %q: check that a majority of its members %q runs: %w",
			traffic.ErrUnavailable, r.Name, q, r.VHost, r.Members, last)
	}
}

// TransferLeadership moves a queue's leadership to one of its members.
func (c *Cluster) TransferLeadership(ctx context.Context, q id.QueueUID, to id.NodeID) error {
	if r, ok := c.View().QueueByUID(q); ok && to != "" && !slices.Contains(r.Members, to) {
		return fmt.Errorf("cluster: queue %q cannot be led by node %q: its members are %q", r.Name, to, r.Members)
	}
	ctx, cancel := c.commandContext(ctx)
	defer cancel()
	return c.atLeader(ctx, q, func(at id.NodeID) (id.NodeID, error) {
		if at == to {
			return "", c.confirmLeads(ctx, to, q)
		}
		request := &nodev1.TransferLeadershipRequest{Group: uint64(q.Group()), To: string(to)}
		var err error
		if at == c.cfg.Node {
			_, err = calls{c: c}.TransferLeadership(ctx, request)
		} else {
			var peer nodev1.NodeClient
			if peer, err = c.mux.Client(at); err == nil {
				_, err = peer.TransferLeadership(ctx, request)
			}
		}
		if status.Code(err) == codes.FailedPrecondition {
			return "", fmt.Errorf("node %q does not lead it", at)
		}
		return "", err
	})
}

// confirmLeads fails unless the node leads the queue.
func (c *Cluster) confirmLeads(ctx context.Context, n id.NodeID, q id.QueueUID) error {
	r, err := c.statusAt(ctx, n, q)
	if err != nil {
		return err
	}
	if !r.GetHasOverview() {
		return fmt.Errorf("node %q does not lead it yet", n)
	}
	return nil
}

// Name returns the cluster's name and this node's version.
func (c *Cluster) Name() (name, version string) { return c.cfg.Name, c.cfg.Version }
