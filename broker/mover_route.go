package broker

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/leader"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/deadletter"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// MoveTarget is the queue that messages are moved to, or the exchange that routes them.
type MoveTarget struct {
	Queue    string // "": through the exchange
	Exchange string
	Key      string // if HasKey; else each message keeps its own keys
	HasKey   bool
}

// refuseUnroutable refuses a move to an exchange by a key that leads no message to a queue (G-13), just as a mandatory
// publish would be returned. If a headers exchange is involved, the messages' headers decide, so each message is
// checked when its turn comes.
func (b *Broker) refuseUnroutable(ctx context.Context, v *catalog.View, vhost string, t MoveTarget) error {
	if !t.HasKey {
		return nil
	}
	e, err := v.Explain(vhost, t.Exchange, &catalog.Publication{
		Keys: []string{t.Key}, Properties: &message.Properties{}, Alternate: b.alternate,
	})
	byHeaders := func(s catalog.RouteStep) bool { return s.Exchange != nil && s.Exchange.RoutesByHeaders() }
	if err != nil || len(e.Queues) > 0 || slices.ContainsFunc(e.Steps, byHeaders) {
		return failure.Translate(err, failure.Error{})
	}
	if why := b.Serving.Current(ctx); why != nil {
		return why
	}
	return &failure.Error{
		Class: failure.PreconditionFailed, State: true, VHost: vhost, Kind: "exchange", Name: t.Exchange, Arg: "routing_key", Value: strconv.Quote(t.Key),
		Reason: "routes to no queue, so that the messages would stay on their way; bind one, or name another key",
	}
}

// wayOf returns where a moved message would go, and with which keys. from is the queue that the message is in.
func wayOf(v *catalog.View, router deadletter.Router, from id.QueueUID, to quorumq.Destination, p *leader.Peeked) (deadletter.Explanation, error) {
	rec, ok := v.QueueByUID(from)
	if !ok {
		return deadletter.Explanation{}, traffic.ErrNoSuchQueue
	}
	d, err := peeked(p)
	if err != nil {
		return deadletter.Explanation{}, err
	}
	return deadletter.Explain(v, router, rec, &d.Message, quorumq.Discarded{To: &to}), nil
}

// unroutable returns why an exchange would lead a moved message to no queue, "" if it leads the message to one.
func unroutable(way *deadletter.Explanation, exchange string) string {
	if way.Cause == deadletter.CauseUnroutable {
		return fmt.Sprintf("exchange %q routes them to no queue", exchange)
	}
	return way.Why
}

// mayRedrive refuses a redrive through an exchange that the caller may not publish to.
func (b *Broker) mayRedrive(ctx context.Context, x *catalog.Exchange) error {
	if x.Internal {
		return internalExchange(x.VHost, x.Name)
	}
	return b.Permissions.Permit(ctx, permission.Exchange(x.VHost, x.Name), permission.Write)
}

// mayRedriveBy refuses a redrive by keys that a topic permission of the caller does not allow (VH-8).
func (b *Broker) mayRedriveBy(ctx context.Context, v *catalog.View, x *catalog.Exchange, keys []string) error {
	who, err := b.Logins.Who(ctx)
	if err != nil || who == nil || !x.HasTopicKeys() {
		return err
	}
	bounds := b.Permissions.TopicPermission(v, who, x.VHost, x.Name)
	if bounds == nil {
		return nil
	}
	return keysWithin(permission.Exchange(x.VHost, x.Name), who.User(), keys, bounds)
}
