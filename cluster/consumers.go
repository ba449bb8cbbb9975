package cluster

import (
	"context"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// ClientConsumer is what is known of a client's consumer.
type ClientConsumer struct {
	Node               id.NodeID // that the client is connected to
	VHost, Queue, Tag  string
	Connection         string // its id
	ConnectionName     string
	Peer               string // the client's address
	User               string
	Prefetch           uint32 // 0: as many as may be
	Priority           int32
	AutoAck, Exclusive bool
	Activity           string
	Unsettled          uint64 // handed to the client, which has not decided
	Buffered           uint64 // waiting for the client to take them
	SinceMs            int64  // Unix time
	// Arguments are the client's, as message.AppendTable writes them; nil: none.
	Arguments []byte
}

// ListConsumers answers for this node.
func (s calls) ListConsumers(_ context.Context, r *nodev1.ListConsumersRequest) (*nodev1.ListConsumersResponse, error) {
	out := &nodev1.ListConsumersResponse{}
	for _, x := range s.c.ownConsumers(r.GetVhost(), r.GetQueue()) {
		out.Consumers = append(out.Consumers, &nodev1.ClientConsumer{
			Vhost: x.VHost, Queue: x.Queue, Tag: x.Tag, Connection: x.Connection, ConnectionName: x.ConnectionName, User: x.User,
			Prefetch: x.Prefetch, Priority: x.Priority, AutoAck: x.AutoAck, Exclusive: x.Exclusive, Activity: x.Activity,
			Unsettled: x.Unsettled, Buffered: x.Buffered, SinceMs: x.SinceMs, Peer: x.Peer, Arguments: x.Arguments,
		})
	}
	return out, nil
}

func (c *Cluster) ownConsumers(vhost, queue string) []ClientConsumer {
	if c.cfg.Connections == nil {
		return nil
	}
	return c.cfg.Connections.Consumers(vhost, queue)
}

// ClientConsumers returns the consumers of the clients of all nodes, by node, and the nodes that
// did not answer within 2 s. What vhost and queue leave out is not among them; "" leaves out none.
func (c *Cluster) ClientConsumers(ctx context.Context, vhost, queue string) (all []ClientConsumer, silent []id.NodeID, err error) {
	all, silent, err = ofAllNodes(ctx, c, c.ownConsumers(vhost, queue), func(ctx context.Context, node nodev1.NodeClient) ([]ClientConsumer, error) {
		r, err := node.ListConsumers(ctx, &nodev1.ListConsumersRequest{Vhost: vhost, Queue: queue})
		if err != nil {
			return nil, err
		}
		theirs := make([]ClientConsumer, 0, len(r.GetConsumers()))
		for _, x := range r.GetConsumers() {
			theirs = append(theirs, ClientConsumer{
				VHost: x.GetVhost(), Queue: x.GetQueue(), Tag: x.GetTag(), Connection: x.GetConnection(), ConnectionName: x.GetConnectionName(),
				User: x.GetUser(), Prefetch: x.GetPrefetch(), Priority: x.GetPriority(), AutoAck: x.GetAutoAck(), Exclusive: x.GetExclusive(),
				Activity: x.GetActivity(), Unsettled: x.GetUnsettled(), Buffered: x.GetBuffered(), SinceMs: x.GetSinceMs(), Peer: x.GetPeer(), Arguments: x.GetArguments(),
			})
		}
		return theirs, nil
	}, func(x *ClientConsumer, n id.NodeID) { x.Node = n })
	return all, silent, err
}
