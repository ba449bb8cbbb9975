package client

import (
	"context"
	"reflect"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// WatchEvents calls seen with the events in the cluster that r selects, until ctx ends or seen
// fails (ST-5). It continues on another node when the one that it uses is lost. The first call has
// no events: from then on no event is missed without a report.
func (c *Client) WatchEvents(ctx context.Context, r WatchEventsRequest, seen func([]Event) error) error {
	var gone error // error of seen
	begun := false
	for retry := (backoff{}); ; {
		err := c.try(ctx, func(ctx context.Context, n *node) error {
			q := new(brokerv1.WatchEventsRequest)
			if err := toProto(reflect.ValueOf(r), q.ProtoReflect()); err != nil {
				return err
			}
			stream, err := n.events.WatchEvents(ctx, q)
			if err != nil {
				return err
			}
			return receive(stream, func(x *brokerv1.WatchEventsResponse) error {
				r.Cursor, retry = x.GetCursor(), backoff{}
				if begun && len(x.GetEvents()) == 0 {
					return nil
				}
				begun = true
				happened := make([]Event, 0, len(x.GetEvents()))
				for _, e := range x.GetEvents() {
					happened = append(happened, owned[Event](e))
				}
				gone = seen(happened)
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

// TailAudit returns the newest audit records that the nodes still keep: which user changed what
// (AU-3). WatchEvents continues after them with the kind audit and the cursor of the answer. The
// answer also names the nodes that did not answer.
func (c *Client) TailAudit(ctx context.Context, r TailAuditRequest) (AuditTail, error) {
	return ask[AuditTail](ctx, c, r, events, brokerv1.EventsClient.TailAudit)
}
