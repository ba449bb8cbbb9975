package topology

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/inventory"
	"github.com/quorate/quorate/cmd/operator/spec"
	"github.com/quorate/quorate/cmd/operator/table"
)

func readQueue(o *v1alpha1.QuorateQueue) (subject, field.ErrorList) {
	q, faults := spec.ReadQueue(o)
	return queue{q}, faults
}

// removalOfQueue takes a missing value for the default, as objects have it that no API server has completed.
func removalOfQueue(o *v1alpha1.QuorateQueue) removal {
	switch o.Spec.Deletion {
	case v1alpha1.QueueDeletionAlways:
		return always
	case v1alpha1.QueueDeletionRetain:
		return keep
	case v1alpha1.QueueDeletionWhenEmpty:
	}
	return ifUnused
}

// remedyOfQueue is for what the broker does not change.
const remedyOfQueue = "The broker does not change a queue that exists. Put back the specification; or move limits and dead-lettering into a QuoratePolicy; " +
	"or let consumers empty the queue and delete it (quoratectl queues delete): then it is made as specified"

// queue is the subject of a QuorateQueue.
type queue struct{ spec.Queue }

func (q queue) name() inventory.Name { return inventory.Name{VHost: q.VHost, Name: q.Name} }
func (q queue) identity() string     { return q.VHost + "\x00" + q.Name }
func (q queue) words() string        { return fmt.Sprintf("queue %q in vhost %q", q.Name, q.VHost) }

// compare follows Q-13: what the broker compares when a queue is declared again.
func (q queue) compare(ctx context.Context, s *session) (bool, []table.Difference, error) {
	found, ok, err := s.inventory.Queue(ctx, q.name(), s.maxAge.duration())
	if err != nil || !ok {
		return false, nil, err
	}
	if status := &as[*v1alpha1.QuorateQueue](s.object).Status; found.Leader != "" {
		status.Leader, status.Members = found.Leader, slices.Clone(found.Members)
	}
	return true, q.differences(found), nil
}

// differences compares what is wanted with what was found.
func (q queue) differences(found inventory.Queue) []table.Difference {
	var out []table.Difference
	kind, named := q.Arguments.Get(argument.QueueType)
	if wanted, _ := kind.AsString(); named && found.Type != "" {
		out = table.CompareText(out, "type", wanted, found.Type)
	}
	out = table.CompareBool(out, "durable", true, found.Durable)
	out = table.CompareBool(out, "exclusive", false, found.Exclusive)
	out = table.CompareBool(out, "autoDelete", q.AutoDelete, found.AutoDelete)
	classic := found.Type == "classic"
	return append(out, table.Compare("arguments", q.Arguments, found.Arguments, func(name string) bool {
		return name != argument.QueueType && argument.ComparedOn(name, classic)
	})...)
}

func (q queue) apply(ctx context.Context, s *session) (created bool, err error) {
	err = s.call(ctx, func(ctx context.Context, c *client.Client) error {
		out, err := c.DeclareQueue(ctx, client.Queue{
			VHost: q.VHost, Name: q.Name, AutoDelete: q.AutoDelete, Arguments: table.ToClient(q.Arguments),
		})
		created = out.Created
		return err
	})
	if err == nil {
		kind, _ := q.Arguments.Get(argument.QueueType)
		word, _ := kind.AsString()
		s.inventory.PutQueue(ctx, q.name(), inventory.Queue{Type: word, Durable: true, AutoDelete: q.AutoDelete, Arguments: q.Arguments})
	}
	return created, err
}

// remove leaves the decision to the broker: the queue's leader looks for messages and consumers just before the
// delete.
func (q queue) remove(ctx context.Context, s *session, how removal) error {
	err := s.call(ctx, func(ctx context.Context, c *client.Client) error {
		_, err := c.DeleteQueue(ctx, client.DeleteQueueRequest{VHost: q.VHost, Name: q.Name, IfEmpty: how == ifUnused, IfUnused: how == ifUnused})
		return gone(err)
	})
	if err == nil {
		s.inventory.DropQueue(ctx, q.name())
	}
	return err
}
