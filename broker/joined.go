package broker

import (
	"context"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/id"
)

// recordJoined writes an audit record each time the catalog has accepted this
// node as a new one.
func recordJoined(ctx context.Context, c *cluster.Cluster, log *audit.Log) {
	for {
		select {
		case <-c.Catalog().Joined():
		case <-ctx.Done():
			return
		}
		node, _ := c.Self()
		_ = log.ByItself(ctx, audit.Act{Operation: audit.OpNodeJoin, Kind: "node", Name: string(node)}, func(ctx context.Context) error {
			n, err := awaitNode(ctx, c, node)
			if err == nil {
				audit.NotesOf(ctx).Note(audit.Change{Field: "address", After: n.Address}, audit.Change{Field: "client_address", After: n.ClientAddress})
			}
			return err
		})
	}
}

// awaitNode waits until this node's view contains a node, and returns that
// node.
func awaitNode(ctx context.Context, c *cluster.Cluster, node id.NodeID) (*catalog.Node, error) {
	for {
		changed := c.ViewChanged()
		if n, known := c.View().Node(node); known {
			return n, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
