package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/cluster/peer"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
)

// ledBatch is how many queues are in one answer of LedFigures.
const ledBatch = 256

// LedFigures sends a peer the figures of the queues that this node leads.
func (s calls) LedFigures(_ *nodev1.LedFiguresRequest, stream grpc.ServerStreamingServer[nodev1.LedFiguresResponse]) error {
	out := &nodev1.LedFiguresResponse{}
	for uid, o := range s.c.LedFigures() {
		text, err := json.Marshal(o)
		if err != nil {
			return fmt.Errorf("figures of queue %s: %w", uid, err)
		}
		out.Queues = append(out.Queues, &nodev1.LedQueue{Queue: uint64(uid), Overview: text})
		if len(out.GetQueues()) == ledBatch {
			if err := stream.Send(out); err != nil {
				return err
			}
			out = &nodev1.LedFiguresResponse{}
		}
	}
	return stream.Send(out)
}

// QueueFigures are those that a queue's leader has. They are not changed.
type QueueFigures struct {
	Leader   id.NodeID
	Overview quorumq.Overview
	text     []byte // as another node has sent them; nil: they are of this one
}

// AllFigures returns the figures of all queues that have a leader, with one question to each node, and the nodes that
// did not answer within 2 s, as builds do not that do not know the question. They are as LedFigures yields them. Those
// that are as they were before, when AllFigures was called last, are not read again: of thousands of queues most are idle.
func (c *Cluster) AllFigures(ctx context.Context, before map[id.QueueUID]*QueueFigures) (all map[id.QueueUID]*QueueFigures, silent []id.NodeID, err error) {
	ctx, cancel := context.WithTimeout(ctx, peer.Timeout)
	defer cancel()
	all = make(map[id.QueueUID]*QueueFigures, len(before))
	for uid, o := range c.LedFigures() {
		all[uid] = &QueueFigures{Leader: c.cfg.Node, Overview: *o}
	}
	err = c.peers.Ask(ctx, func(ctx context.Context, n id.NodeID, node nodev1.NodeClient) (func() error, error) {
		theirs, err := ledBy(ctx, n, node, before)
		return func() error {
			for uid, f := range theirs {
				// One that was cut off may still believe that it leads: the newer figures count.
				if have := all[uid]; have == nil || have.Overview.Now < f.Overview.Now {
					all[uid] = f
				}
			}
			return nil
		}, err
	}, func(n id.NodeID) { silent = append(silent, n) })
	slices.Sort(silent)
	return all, silent, err
}

// ledBy asks one node.
func ledBy(ctx context.Context, n id.NodeID, node nodev1.NodeClient, before map[id.QueueUID]*QueueFigures) (map[id.QueueUID]*QueueFigures, error) {
	stream, err := node.LedFigures(ctx, &nodev1.LedFiguresRequest{})
	if err != nil {
		return nil, err
	}
	out := map[id.QueueUID]*QueueFigures{}
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		for _, q := range r.GetQueues() {
			uid := id.QueueUID(q.GetQueue())
			if f := before[uid]; f != nil && f.Leader == n && bytes.Equal(f.text, q.GetOverview()) {
				out[uid] = f
				continue
			}
			f := &QueueFigures{Leader: n, text: q.GetOverview()}
			if err := json.Unmarshal(f.text, &f.Overview); err != nil {
				return nil, fmt.Errorf("figures of queue %d: %w", uid, err)
			}
			out[uid] = f
		}
	}
}
