package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/deadletter"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

var (
	_ cluster.Leaders   = (*Broker)(nil)
	_ deadletter.Source = (*cluster.Led)(nil)
)

// forwardRouter implements deadletter.Router over the view; the broker is attached.
type forwardRouter struct{ b *Broker }

func (r forwardRouter) View() *catalog.View { return r.b.cluster.Load().View() }

func (r forwardRouter) Changed() <-chan struct{} { return r.b.cluster.Load().ViewChanged() }

func (r forwardRouter) Rule(q *catalog.QueueRecord) deadletter.Rule {
	e := r.b.policies.InForce(r.View(), q)
	return deadletter.Rule{
		Enabled: e.HasDeadLetterExchange, Exchange: e.DeadLetterExchange,
		RoutingKey: e.DeadLetterRoutingKey, HasRoutingKey: e.HasDeadLetterRoutingKey,
		AllowCycles: e.DeadLetterCycles, MaxHops: uint64(e.DeadLetterMaxHops),
	}
}

func (r forwardRouter) AlternateExchange(v *catalog.View, x *catalog.Exchange) (string, bool) {
	return r.b.policies.AlternateExchange(v, x)
}

// forwardSender implements deadletter.Sender over the cluster.
type forwardSender struct{ b *Broker }

func (s forwardSender) Transfer(ctx context.Context, target id.QueueUID, t *quorumq.Transfer, bodies [][]byte) (quorumq.Reply, error) {
	q, err := s.b.cluster.Load().Queue(target)
	if err != nil {
		return quorumq.Reply{}, senderError(err)
	}
	r, err := q.Transfer(ctx, t, bodies)
	return r, senderError(err)
}

func (s forwardSender) Enqueue(
	ctx context.Context, target id.QueueUID, m quorumq.NewMessage, body []byte, done func(error),
) error {
	q, err := s.b.queueHandle(target)
	if err != nil {
		return senderError(err)
	}
	return senderError(q.Enqueue(ctx, m, body, func(err error) { done(senderError(err)) }))
}

// senderError makes the errors that the forwarder decides on.
func senderError(err error) error {
	switch {
	case errors.Is(err, cluster.ErrNoSuchQueue):
		return fmt.Errorf("%w: %w", deadletter.ErrNoTarget, err)
	case errors.Is(err, cluster.ErrRefused):
		return fmt.Errorf("%w: %w", deadletter.ErrRefused, err)
	case errors.Is(err, cluster.ErrUnknownOutcome):
		return fmt.Errorf("%w: %w", deadletter.ErrDoubtful, err)
	}
	return err
}
