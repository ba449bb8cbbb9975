package messages

import (
	"context"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/operators"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/quorumq"
)

// The kinds of operation on chosen messages (G-13).
const (
	kindDeleteMessages  operation.Kind = "delete-messages"
	kindMoveMessages    operation.Kind = "move-messages"
	kindRedriveMessages operation.Kind = "redrive-messages"
)

// Delete starts to remove messages from a queue. They are not dead-lettered.
func (ms *Messages) Delete(ctx context.Context, j Job) (operators.Operation, operators.Plan, error) {
	return ms.startMoving(ctx, kindDeleteMessages, j, quorumq.Destination{}, nil)
}

// Move starts to move messages to the target. Each message arrives there once, even if leaders change meanwhile
// (DL-25).
func (ms *Messages) Move(ctx context.Context, j Job, t Target) (operators.Operation, operators.Plan, error) {
	to := quorumq.Destination{Kind: quorumq.ToExchange, Name: t.Exchange, Key: t.Key, HasKey: t.HasKey}
	if t.Queue != "" {
		to = quorumq.Destination{Kind: quorumq.ToQueue, Name: t.Queue}
	}
	return ms.startMoving(ctx, kindMoveMessages, j, to, func(v *catalog.View, rec *catalog.QueueRecord) error {
		if t.Queue != "" {
			return ms.permitQueueTarget(ctx, v, rec, t.Queue)
		}
		return ms.permitExchangeTarget(ctx, v, rec.VHost, t)
	})
}

// Redrive starts to move dead letters back to the queue in which they died first or, with exchange set, to the
// exchange through which they had reached it. A message stays if it never died, or if its queue or exchange no longer
// exists.
func (ms *Messages) Redrive(ctx context.Context, j Job, exchange bool) (operators.Operation, operators.Plan, error) {
	to := quorumq.Destination{Kind: quorumq.ToOrigin}
	if exchange {
		to.Kind = quorumq.ToOriginExchange
	}
	j.Filter.Dead = true
	return ms.startMoving(ctx, kindRedriveMessages, j, to, func(_ *catalog.View, rec *catalog.QueueRecord) error {
		if exchange {
			return nil // checked for each exchange that a message came through
		}
		return ms.permissions.Permit(ctx, permission.Exchange(rec.VHost, ""), permission.Write)
	})
}

// permitQueueTarget refuses a move to a queue that does not exist, is the source, or that the caller may not publish
// to.
func (ms *Messages) permitQueueTarget(ctx context.Context, v *catalog.View, from *catalog.QueueRecord, name string) error {
	to, err := serving.LookUp(v, from.VHost, name)
	if err != nil {
		return err
	}
	if to.UID == from.UID {
		return &failure.Error{
			Class: failure.PreconditionFailed, VHost: from.VHost, Kind: "queue", Name: name, Arg: "to_queue", Value: name,
			Reason: "is the queue that the messages are in; name another",
		}
	}
	return ms.permissions.Permit(ctx, permission.Exchange(from.VHost, ""), permission.Write) // as for publishing to it (EX-3)
}

// permitExchangeTarget refuses a move through an exchange that the caller may not publish to, or by a key that leads to
// no queue.
func (ms *Messages) permitExchangeTarget(ctx context.Context, v *catalog.View, vhost string, t Target) error {
	x, err := serving.PublishExchange(v, vhost, t.Exchange)
	if err != nil {
		return err
	}
	if err := ms.permissions.Permit(ctx, permission.Exchange(vhost, t.Exchange), permission.Write); err != nil {
		return err
	}
	who, err := ms.logins.Who(ctx)
	if err != nil {
		return err
	}
	if who != nil && x.HasTopicKeys() {
		// VH-8: the messages' own keys are not known yet.
		if g := ms.permissions.TopicPermission(v, who, vhost, t.Exchange); g != nil && (!t.HasKey || !g.Matches(permission.Write, t.Key)) {
			return permission.Exchange(vhost, t.Exchange).RefusedKey(who.User(), permission.Write, t.Key)
		}
	}
	return ms.refuseUnroutable(ctx, v, vhost, t)
}

// startMoving checks a job and starts it as an operation of this node; with DryRun it only returns the plan.
func (ms *Messages) startMoving(
	ctx context.Context, kind operation.Kind, j Job, to quorumq.Destination,
	check func(*catalog.View, *catalog.QueueRecord) error,
) (operators.Operation, operators.Plan, error) {
	q, about, err := ms.queues.ToRead(ctx, j.VHost, j.Queue)
	if err != nil {
		return operators.Operation{}, operators.Plan{}, err
	}
	c := ms.cluster
	rec, err := serving.LookUp(c.View(), j.VHost, j.Queue)
	if err == nil && check != nil {
		err = check(c.View(), rec)
	}
	if err == nil {
		err = j.Filter.Validate()
	}
	if err != nil {
		return operators.Operation{}, operators.Plan{}, failure.Translate(err, about)
	}
	caller := context.WithoutCancel(ctx)
	m := &mover{
		c: c, q: q, vhost: j.VHost, job: j, to: to, about: about, origins: make(map[string]error),
		may: func(x *catalog.Exchange) error { return ms.mayRedrive(caller, x) },
		mayBy: func(v *catalog.View, x *catalog.Exchange, keys []string) error {
			return ms.mayRedriveBy(caller, v, x, keys)
		},
	}
	if j.DryRun {
		err := m.run(ctx, func(operation.Progress) {})
		return operators.Operation{}, m.plan, failure.Translate(err, about)
	}
	op, err := ms.operators.Start(ctx, kind, operators.QueueTarget(j.VHost, j.Queue), func(ctx context.Context, report func(operation.Progress)) error {
		return failure.Translate(m.run(ctx, report), about)
	})
	return op, operators.Plan{}, err
}
