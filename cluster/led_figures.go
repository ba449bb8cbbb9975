package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/cluster/peer"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
)

// LedFigures sends a peer the figures of the queues that this node leads. What has not changed since the peer last asked is
// only named.
func (s calls) LedFigures(r *nodev1.LedFiguresRequest, stream grpc.ServerStreamingServer[nodev1.LedFiguresResponse]) error {
	run, since := uint64(s.c.epoch), r.GetSince()
	if r.GetRun() != run {
		since = 0
	}
	all, err := s.c.sent.respond(run, since, s.c.LedFigures())
	if err != nil {
		return err
	}
	for _, out := range all {
		if err := stream.Send(out); err != nil {
			return err
		}
	}
	return nil
}

// QueueFigures are those that a queue's leader has. They are not changed.
type QueueFigures struct {
	Leader   id.NodeID // of a queue that hibernates, the node that shows it
	Overview quorumq.Overview
}

// AllFigures are the figures of all queues that have a leader, from one round of questions. They are not changed.
type AllFigures struct {
	Queues map[id.QueueUID]*QueueFigures
	// Silent are the nodes that did not answer within 2 s, as builds do not that do not know the question.
	Silent []id.NodeID
	of     map[id.NodeID]*nodeFigures // that each node gave
}

// nodeFigures are those that one node gave.
type nodeFigures struct {
	run, asOf uint64 // of its response; 0: its build does not send it
	queues    map[id.QueueUID]*QueueFigures
}

// AllFigures asks each node once for the figures of all queues, which are as LedFigures yields them. before are those of the
// last call, nil if there are none: what has not changed since is taken from there, and costs next to nothing.
func (c *Cluster) AllFigures(ctx context.Context, before *AllFigures) (*AllFigures, error) {
	ctx, cancel := context.WithTimeout(ctx, peer.Timeout)
	defer cancel()
	if before == nil {
		before = &AllFigures{}
	}
	self := c.cfg.Node
	out := &AllFigures{of: map[id.NodeID]*nodeFigures{self: ownFigures(self, before.of[self], c.LedFigures())}}
	err := c.peers.Ask(ctx, func(ctx context.Context, n id.NodeID, node nodev1.NodeClient) (func() error, error) {
		theirs, err := figuresOf(ctx, n, node, before.of[n])
		return func() error { out.of[n] = theirs; return nil }, err
	}, func(n id.NodeID) { out.Silent = append(out.Silent, n) })
	slices.Sort(out.Silent)
	out.merge(len(before.Queues))
	return out, err
}

// merge fills Queues. One node that was cut off may still believe that it leads a queue: the newer figures count. Where two
// nodes show a queue that hibernates, which are not connected, both have the same, and one of them is always taken.
func (f *AllFigures) merge(size int) {
	f.Queues = make(map[id.QueueUID]*QueueFigures, size)
	for _, n := range slices.Sorted(maps.Keys(f.of)) {
		for uid, q := range f.of[n].queues {
			if have := f.Queues[uid]; have == nil || have.Overview.Now < q.Overview.Now {
				f.Queues[uid] = q
			}
		}
	}
}

// ownFigures are those of this node. Figures that are as before stay the same object, which saves memory.
func ownFigures(self id.NodeID, before *nodeFigures, all iter.Seq2[id.QueueUID, *quorumq.Overview]) *nodeFigures {
	if before == nil {
		before = &nodeFigures{}
	}
	out := &nodeFigures{queues: make(map[id.QueueUID]*QueueFigures, len(before.queues))}
	for uid, o := range all {
		f := before.queues[uid]
		if f == nil || f.Overview != *o {
			f = &QueueFigures{Leader: self, Overview: *o}
		}
		out.queues[uid] = f
	}
	return out
}

// figuresOf asks one node; before is what it gave last, or nil.
func figuresOf(ctx context.Context, n id.NodeID, node nodev1.NodeClient, before *nodeFigures) (*nodeFigures, error) {
	if before == nil {
		before = &nodeFigures{}
	}
	stream, err := node.LedFigures(ctx, &nodev1.LedFiguresRequest{Run: before.run, Since: before.asOf})
	if err != nil {
		return nil, err
	}
	out := &nodeFigures{queues: make(map[id.QueueUID]*QueueFigures, len(before.queues))}
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if err := out.add(n, before, r); err != nil {
			return nil, err
		}
	}
}

// add adds one response.
func (f *nodeFigures) add(n id.NodeID, before *nodeFigures, r *nodev1.LedFiguresResponse) error {
	f.run, f.asOf = r.GetRun(), r.GetAsOf()
	for _, q := range r.GetQueues() {
		x := &QueueFigures{Leader: n}
		if err := json.Unmarshal(q.GetOverview(), &x.Overview); err != nil {
			return fmt.Errorf("figures of queue %d: %w", q.GetQueue(), err)
		}
		f.queues[id.QueueUID(q.GetQueue())] = x
	}
	for _, uid := range r.GetUnchanged() {
		x := before.queues[id.QueueUID(uid)]
		if x == nil {
			return fmt.Errorf("node %s says that the figures of queue %d are as before, but has sent none", n, uid)
		}
		f.queues[id.QueueUID(uid)] = x
	}
	return nil
}
