package broker

import (
	"context"
	"strconv"
	"time"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// Deleted counts the messages that were lost with a queue.
type Deleted struct {
	Ready, Unsettled, Delayed, Backlog uint64
	// DrainDeleting means that nothing is lost: the queue still dead-letters its messages, and is gone after that
	//
	DrainDeleting bool
}

// Deletion has the conditions of deleting a queue.
type Deletion struct {
	IfUnused bool // refuse while it has a consumer
	IfEmpty  bool // refuse while it has a message in any state
	Discard  bool // drop the messages even if the queue would dead-letter them first
}

// drainDeleteWait is how long DeleteQueue waits until the queue has dead-lettered its messages.
const drainDeleteWait = 2 * time.Second

// DeleteQueue removes a queue; it succeeds if the queue does not exist. A queue that dead-letters its messages first
// may outlast the call.
func (b *Broker) DeleteQueue(ctx context.Context, vhost, name string, how Deletion) (Deleted, error) {
	c := b.cluster
	name = catalog.StripName(name)
	about := failure.Error{VHost: vhost, Kind: "queue", Name: name}
	if err := b.Permissions.Permit(ctx, permission.Queue(vhost, name), permission.Configure); err != nil {
		return Deleted{}, err
	}
	v := c.View()
	rec, err := serving.LookUp(v, vhost, name)
	if rec == nil {
		if e, ok := err.(*failure.Error); ok && e.Kind == "vhost" { //nolint:errorlint // lookUp wraps nothing
			return Deleted{}, err
		}
		return Deleted{}, nil
	}
	if err := b.Connections.PermitOwner(ctx, rec); err != nil {
		return Deleted{}, err
	}
	var gone Deleted
	defer func() { audit.NotesOf(ctx).Lost(gone.Ready + gone.Unsettled + gone.Delayed + gone.Backlog) }()
	drains := !how.Discard && (rec.DrainDeleting > 0 || b.policies.DrainsBeforeDelete(v, rec))
	seals := !drains && how.IfEmpty && v.Version() >= catalog.VersionSealed
	if gone, err = b.condemn(ctx, rec.UID, how, seals, about); err != nil {
		if _, there := c.View().QueueByUID(rec.UID); !there { // it expired meanwhile, or somebody else has deleted it
			err = nil
		}
		return Deleted{}, err
	}
	if !drains {
		cmd := &catalog.DeleteQueue{VHost: vhost, Name: name, UID: rec.UID}
		if seals { // the queue's leader may be first
			_, err = b.commands.CommitDecided(ctx, v, cmd)
		} else {
			_, err = b.commands.Commit(ctx, cmd)
		}
		return gone, failure.Translate(err, about)
	}
	if _, err = b.commands.Commit(ctx, &catalog.DrainDeleteQueue{VHost: vhost, Name: name, UID: rec.UID}); err != nil {
		return gone, failure.Translate(err, about)
	}
	gone.DrainDeleting = b.awaitDrainDeleted(ctx, c, rec.UID)
	return gone, nil
}

// sealTries is how often condemn asks again for a queue that is empty when it asks but no longer when it is to be
// sealed.
const sealTries = 3

// condemn checks the conditions of a deletion, and returns what the queue holds. With seals, a queue that must be empty
// takes nothing from then on, so that nothing can be in it when it is deleted.
func (b *Broker) condemn(ctx context.Context, uid id.QueueUID, how Deletion, seals bool, about failure.Error) (Deleted, error) {
	var gone Deleted
	for range sealTries {
		s, err := b.cluster.Leaders().Status(ctx, uid)
		switch {
		case err == nil:
		case how.IfUnused || how.IfEmpty:
			// Without a leader the conditions cannot be checked. Without conditions the queue is deleted even so.
			return gone, failure.Translate(err, about)
		default:
			return gone, nil
		}
		o := &s.Overview
		gone = Deleted{Ready: o.Ready, Unsettled: o.Unsettled, Delayed: o.Delayed, Backlog: o.Backlog}
		if err := deletable(o, how, about); err != nil || !seals {
			return gone, err
		}
		if sealed, err := b.seal(ctx, uid, how.IfUnused); err != nil || sealed {
			return gone, failure.Translate(err, about)
		}
	}
	about.Class, about.State, about.Arg, about.Value = failure.PreconditionFailed, true, "if_empty", "true"
	about.Problem, about.Reason = failure.ProblemNotEmpty, "messages or consumers come and go; stop them, or delete it without conditions"
	return gone, &about
}

// seal has an empty queue take nothing more, and reports whether it was empty. A sealed queue cannot be used until
// the catalog has deleted it, so a queue is sealed only while the catalog can be reached.
func (b *Broker) seal(ctx context.Context, uid id.QueueUID, ifUnused bool) (bool, error) {
	if err := b.group.Confirm(ctx); err != nil {
		return false, serving.ErrStale(err)
	}
	q, err := b.cluster.Gateway().Queue(uid)
	if err != nil {
		return false, err
	}
	return q.Seal(ctx, &quorumq.Seal{IfUnused: ifUnused})
}

// awaitDrainDeleted waits at most drainDeleteWait for the end of a queue, and reports whether the queue is still there.
func (b *Broker) awaitDrainDeleted(ctx context.Context, c *cluster.Cluster, uid id.QueueUID) bool {
	ctx, cancel := context.WithTimeout(ctx, drainDeleteWait)
	defer cancel()
	for {
		changed := c.ViewChanged()
		if _, there := c.View().QueueByUID(uid); !there {
			return false
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return true
		}
	}
}

// deletable checks the conditions of a deletion; o has the queue's figures from its leader.
func deletable(o *quorumq.Overview, how Deletion, about failure.Error) error {
	about.Class, about.State, about.Value = failure.PreconditionFailed, true, "true"
	messages := o.Ready + o.Unsettled + o.Delayed + o.Backlog
	switch {
	case how.IfUnused && o.Consumers > 0:
		about.Arg, about.Problem = "if_unused", failure.ProblemInUse
		about.Reason = "in use by " + strconv.Itoa(o.Consumers) + " consumers; end them first"
	case how.IfEmpty && messages > 0:
		about.Arg, about.Problem = "if_empty", failure.ProblemNotEmpty
		about.Reason = "holds " + strconv.FormatUint(messages, 10) + " messages (ready " + strconv.FormatUint(o.Ready, 10) +
			", unacknowledged " + strconv.FormatUint(o.Unsettled, 10) + ", delayed " + strconv.FormatUint(o.Delayed, 10) +
			", waiting to be dead-lettered " +
			strconv.FormatUint(o.Backlog, 10) + "); purge it, or delete it without if_empty"
	default:
		return nil
	}
	return &about
}

// RetryDelayed makes delayed messages of a queue ready at once, and returns how many: at most limit, first those that
// are due first. The limit 0 stands for all (DR-6).
func (b *Broker) RetryDelayed(ctx context.Context, vhost, name string, limit uint64) (uint64, error) {
	q, about, err := b.Queues.ToRead(ctx, vhost, catalog.StripName(name))
	if err != nil {
		return 0, err
	}
	n, err := q.RetryDelayed(ctx, limit)
	audit.NotesOf(ctx).Counted("delayed_messages", n)
	return n, failure.Translate(err, about)
}

// PurgeQueue removes ready messages, delayed messages and the dead-letter backlog, and returns how many it has removed
//
func (b *Broker) PurgeQueue(ctx context.Context, vhost, name string) (uint64, error) {
	q, about, err := b.Queues.ToRead(ctx, vhost, catalog.StripName(name))
	if err != nil {
		return 0, err
	}
	n, err := q.Purge(ctx)
	audit.NotesOf(ctx).Counted("messages", n)
	if n > 0 {
		b.cluster.RetryDeadLetters(q.UID()) // DL-24: the queue has room again
	}
	return n, failure.Translate(err, about)
}

// Room returns ResourceExhausted if a queue takes no messages because disk space is short; nil if it takes messages, or
// does not exist. Room makes no call, because nodes send one another the state of their disks.
func (b *Broker) Room(vhost, queue string) error {
	c := b.cluster
	q, ok := c.View().Queue(vhost, queue)
	if !ok {
		return nil
	}
	return failure.Translate(c.Room(q.UID), failure.Error{VHost: vhost, Kind: "queue", Name: queue})
}
