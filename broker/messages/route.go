package messages

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/leader"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/deadletter"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// Target is the queue that messages are moved to, or the exchange that routes them.
type Target struct {
	Queue    string // "": through the exchange
	Exchange string
	Key      string // if HasKey; else each message keeps its own keys
	HasKey   bool
}

// refuseUnroutable refuses a move to an exchange by a key that leads no message to a queue (G-13), just as a mandatory
// publish would be returned. If a headers exchange is involved, the messages' headers decide, so each message is
// checked when its turn comes.
func (ms *Messages) refuseUnroutable(ctx context.Context, v *catalog.View, vhost string, t Target) error {
	if !t.HasKey {
		return nil
	}
	e, err := v.Explain(vhost, t.Exchange, &catalog.Publication{
		Keys: []string{t.Key}, Properties: &message.Properties{}, Alternate: ms.alternate,
	})
	byHeaders := func(s catalog.RouteStep) bool { return s.Exchange != nil && s.Exchange.RoutesByHeaders() }
	if err != nil || len(e.Queues) > 0 || slices.ContainsFunc(e.Steps, byHeaders) {
		return failure.Translate(err, failure.Error{})
	}
	if why := ms.serving.Current(ctx); why != nil {
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
	m, err := p.Decode()
	if err != nil {
		return deadletter.Explanation{}, err
	}
	return deadletter.Explain(v, router, rec, &m, quorumq.Discarded{To: &to}), nil
}

// unroutable returns why an exchange would lead a moved message to no queue, "" if it leads the message to one.
func unroutable(way *deadletter.Explanation, exchange string) string {
	if way.Cause == deadletter.CauseUnroutable {
		return fmt.Sprintf("exchange %q routes them to no queue", exchange)
	}
	return way.Why
}

// mayRedrive refuses a redrive through an exchange that the caller may not publish to.
func (ms *Messages) mayRedrive(ctx context.Context, x *catalog.Exchange) error {
	if x.Internal {
		return serving.InternalExchange(x.VHost, x.Name)
	}
	return ms.permissions.Permit(ctx, permission.Exchange(x.VHost, x.Name), permission.Write)
}

// mayRedriveBy refuses a redrive by keys that a topic permission of the caller does not allow (VH-8).
func (ms *Messages) mayRedriveBy(ctx context.Context, v *catalog.View, x *catalog.Exchange, keys []string) error {
	who, err := ms.logins.Who(ctx)
	if err != nil || who == nil || !x.HasTopicKeys() {
		return err
	}
	bounds := ms.permissions.TopicPermission(v, who, x.VHost, x.Name)
	if bounds == nil {
		return nil
	}
	return permission.Exchange(x.VHost, x.Name).KeysWithin(who.User(), keys, bounds)
}
