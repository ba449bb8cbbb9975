package peer

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// exchangeBatch is how many exchanges are in one response.
const exchangeBatch = 1000

// ExchangeFigures sends another node what this node's clients have published to each exchange.
func (c *Clients) ExchangeFigures(_ *nodev1.ExchangeFiguresRequest, stream grpc.ServerStreamingServer[nodev1.ExchangeFiguresResponse]) error {
	out := &nodev1.ExchangeFiguresResponse{}
	for _, x := range c.own.ExchangeFigures(c.peers.View) {
		if len(out.GetExchanges()) == exchangeBatch {
			if err := stream.Send(out); err != nil {
				return err
			}
			out = &nodev1.ExchangeFiguresResponse{}
		}
		out.Exchanges = append(out.Exchanges, &nodev1.ExchangeCounts{Vhost: x.VHost, Name: x.Name, PublishedIn: x.In, PublishedOut: x.Out})
	}
	return stream.Send(out)
}

// Exchanges returns what the clients of each node have published to each exchange, by node, and the nodes that did not answer
// within 2 s.
func (c *Clients) Exchanges(ctx context.Context) (all []clients.ExchangeFigures, silent []id.NodeID, err error) {
	own := c.own.ExchangeFigures(c.peers.View)
	return ofAll(ctx, c.peers, own, exchangesOf, func(x *clients.ExchangeFigures, n id.NodeID) { x.Node = n })
}

// exchangesOf asks one node.
func exchangesOf(ctx context.Context, node nodev1.NodeClient) (theirs []clients.ExchangeFigures, err error) {
	stream, err := node.ExchangeFigures(ctx, &nodev1.ExchangeFiguresRequest{})
	if err != nil {
		return nil, err
	}
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return theirs, nil
		}
		if err != nil {
			return nil, err
		}
		for _, x := range r.GetExchanges() {
			theirs = append(theirs, clients.ExchangeFigures{VHost: x.GetVhost(), Name: x.GetName(), In: x.GetPublishedIn(), Out: x.GetPublishedOut()})
		}
	}
}
