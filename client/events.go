package client

import (
	"context"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// WatchEvents calls seen with what happens in the cluster, as r chooses, until ctx ends or
// seen fails (ST-5). It goes on over another node when the one that it asks is lost. The
// first call has no events: from then on nothing is missed without being told so.
func (c *Client) WatchEvents(ctx context.Context, r *brokerv1.WatchEventsRequest, seen func([]*brokerv1.Event) error) error {
	r = &brokerv1.WatchEventsRequest{Vhost: r.GetVhost(), Kinds: r.GetKinds(), Name: r.GetName(), Cursor: r.GetCursor(), History: r.GetHistory(), User: r.GetUser(), Operation: r.GetOperation()}
	var gone error // of seen
	begun := false
	for retry := (backoff{}); ; {
		err := c.try(ctx, func(ctx context.Context, n *node) error {
			stream, err := n.events.WatchEvents(ctx, r)
			if err != nil {
				return err
			}
			return receive(stream, func(x *brokerv1.WatchEventsResponse) error {
				r.Cursor, retry = x.GetCursor(), backoff{}
				if begun && len(x.GetEvents()) == 0 {
					return nil
				}
				begun = true
				gone = seen(x.GetEvents())
				return gone
			})
		})
		if gone != nil {
			return gone
		}
		if err := c.again(ctx, &retry, err); err != nil {
			return err
		}
	}
}

// TailAudit returns the newest records of who changed what that nodes still have, as r chooses (AU-3);
// WatchEvents goes on behind them with the kind audit and the cursor of the answer, which also names
// nodes that could not be asked.
func (c *Client) TailAudit(ctx context.Context, r *brokerv1.TailAuditRequest) (*brokerv1.TailAuditResponse, error) {
	return do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.TailAuditRequest) (*brokerv1.TailAuditResponse, error) {
		return n.events.TailAudit(ctx, r)
	})
}
