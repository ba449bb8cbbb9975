package broker

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/quorate/quorate/broker/failure"
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
	byHeaders := func(s catalog.RouteStep) bool { return s.Exchange != nil && s.Exchange.Type == catalog.ExchangeHeaders }
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

// unroutable returns why an exchange would lead a moved message to no queue, "" if it leads the message to one. from is
// the queue that the message is in.
func unroutable(v *catalog.View, router deadletter.Router, from id.QueueUID, to quorumq.Destination, exchange string, p *leader.Peeked) (string, error) {
	rec, ok := v.QueueByUID(from)
	if !ok {
		return "", traffic.ErrNoSuchQueue
	}
	d, err := peeked(p)
	if err != nil {
		return "", err
	}
	x := deadletter.Explain(v, router, rec, &d.Message, quorumq.Discarded{To: &to})
	if x.Cause == deadletter.CauseUnroutable {
		return fmt.Sprintf("exchange %q routes them to no queue", exchange), nil
	}
	return x.Why, nil
}
