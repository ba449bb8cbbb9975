package forwarding

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/deadletter"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/quorumq"
)

// Catalog reports whether this node's view of the catalog was confirmed (EX-16), and how old it may
// be; a *metadata.Group is one.
type Catalog interface {
	Serves() bool
	ServesChanged() <-chan struct{}
	ViewAge() (age time.Duration, known bool)
}

// Router is deadletter.Router over this node's view.
type Router struct {
	Catalog  Catalog
	Views    *metadata.Views
	Policies *policy.Matcher
}

// Serves implements deadletter.Router.
func (r Router) Serves() bool { return r.Catalog.Serves() }

// ServesChanged implements deadletter.Router.
func (r Router) ServesChanged() <-chan struct{} { return r.Catalog.ServesChanged() }

// Current implements deadletter.Router.
func (r Router) Current() bool {
	age, known := r.Catalog.ViewAge()
	return known && age <= deadletter.MaxViewAge
}

// View implements deadletter.Router.
func (r Router) View() *catalog.View { return r.Views.View() }

// Changed implements deadletter.Router.
func (r Router) Changed() <-chan struct{} { return r.Views.Next() }

// Rule implements deadletter.Router.
func (r Router) Rule(v *catalog.View, q *catalog.QueueRecord) deadletter.Rule {
	e := r.Policies.InForce(v, q)
	return deadletter.Rule{
		Enabled: e.HasDeadLetterExchange, Exchange: e.DeadLetterExchange,
		RoutingKey: e.DeadLetterRoutingKey, HasRoutingKey: e.HasDeadLetterRoutingKey,
		AllowCycles: e.DeadLetterCycles, MaxHops: uint64(e.DeadLetterMaxHops),
	}
}

// AlternateExchange implements deadletter.Router.
func (r Router) AlternateExchange(v *catalog.View, x *catalog.Exchange) (string, bool) {
	return r.Policies.AlternateExchange(v, x)
}

// Sender is deadletter.Sender: dead letters go to their targets as what clients publish does.
type Sender struct {
	Gateway *gateway.Gateway
}

// Transfer implements deadletter.Sender.
func (s Sender) Transfer(ctx context.Context, target id.QueueUID, t *quorumq.Transfer, bodies [][]byte) (quorumq.Reply, error) {
	q, err := s.Gateway.Queue(target)
	if err != nil {
		return quorumq.Reply{}, deadLetterError(err)
	}
	r, err := q.Transfer(ctx, t, bodies)
	return r, deadLetterError(err)
}

// Enqueue implements deadletter.Sender.
func (s Sender) Enqueue(ctx context.Context, target id.QueueUID, m quorumq.NewMessage, body []byte, done func(error)) error {
	q, err := s.Gateway.Queue(target)
	if err != nil {
		return deadLetterError(err)
	}
	return deadLetterError(q.Enqueue(ctx, m, body, func(err error) { done(deadLetterError(err)) }))
}

// deadLetterError makes the errors that the forwarder decides on.
func deadLetterError(err error) error {
	switch {
	case errors.Is(err, traffic.ErrNoSuchQueue):
		return fmt.Errorf("%w: %w", deadletter.ErrNoTarget, err)
	case errors.Is(err, traffic.ErrRefused):
		return fmt.Errorf("%w: %w", deadletter.ErrRefused, err)
	case errors.Is(err, traffic.ErrUnknownOutcome):
		return fmt.Errorf("%w: %w", deadletter.ErrDoubtful, err)
	}
	return err
}
