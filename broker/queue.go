package broker

import (
	"context"
	"strconv"
	"strings"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/quorumq"
)

// DeclareQueue asks for a queue.
type DeclareQueue struct {
	VHost, Name string
	Durable     bool
	Exclusive   bool
	AutoDelete  bool
	Arguments   message.Table
	Passive     bool // only asks whether it exists
}

// Declared tells what a declared queue holds.
type Declared struct {
	Name      string // without CR and LF
	UID       uint64
	Created   bool
	Ready     uint64
	Consumers int
	// Warnings name arguments that are accepted and not what they look like.
	Warnings []string
}

// findQueue looks a queue up and returns this node's end of it.
func (b *Broker) findQueue(vhost, name string) (*cluster.Queue, Error, error) {
	about := Error{VHost: vhost, Kind: "queue", Name: name}
	c, err := b.attachedCluster()
	if err != nil {
		return nil, about, err
	}
	rec, err := lookUp(c.View(), vhost, name)
	if err != nil {
		return nil, about, err
	}
	q, err := c.Queue(rec.UID)
	return q, about, translate(err, about)
}

// queueToRead is findQueue for who may read from it (VH-6).
func (b *Broker) queueToRead(ctx context.Context, vhost, name string) (*cluster.Queue, Error, error) {
	if err := b.permit(ctx, queueOf(vhost, name), read); err != nil {
		return nil, Error{}, err
	}
	return b.findQueue(vhost, name)
}

func lookUp(v *catalog.View, vhost, name string) (*catalog.QueueRecord, error) {
	if rec, ok := v.Queue(vhost, name); ok {
		return rec, nil
	}
	if _, ok := v.Exchange(vhost, ""); !ok { // every vhost has the default exchange
		return nil, &Error{Class: NotFound, VHost: vhost, Kind: "vhost", Name: vhost, Reason: "does not exist"}
	}
	return nil, &Error{
		Class: NotFound, VHost: vhost, Kind: "queue", Name: name,
		Reason: "does not exist; declare it first",
	}
}

// checkName checks the name of a thing that is to be made (C-3).
func checkName(name string, about Error) error {
	about.Class, about.Arg = PreconditionFailed, "name"
	switch {
	case name == "":
		about.Reason = "is empty; choose a name (this version does not make names up)"
	case len(name) > catalog.MaxNameBytes:
		about.Name, about.Value = name[:catalog.MaxNameBytes], strconv.Itoa(len(name))+" bytes"
		about.Reason = "the limit is " + strconv.Itoa(catalog.MaxNameBytes) + " bytes; choose a shorter name"
	case strings.ContainsRune(name, 0):
		about.Reason = "contains a NUL byte; choose a name without"
	case strings.ToValidUTF8(name, "") != name:
		about.Reason = "is not valid UTF-8"
	case strings.HasPrefix(name, "amq."):
		about.Class, about.Arg = AccessRefused, ""
		about.Reason = `names that start with "amq." are reserved; choose another`
	default:
		return nil
	}
	return &about
}

// DeclareQueue makes a queue unless an equivalent one exists.
func (b *Broker) DeclareQueue(ctx context.Context, d DeclareQueue) (Declared, error) {
	c, err := b.attachedCluster()
	if err != nil {
		return Declared{}, err
	}
	d.Name = catalog.StripName(d.Name)
	about := Error{VHost: d.VHost, Kind: "queue", Name: d.Name}
	rec, err := lookUp(c.View(), d.VHost, d.Name)
	if d.Passive {
		if err := b.permitAny(ctx, queueOf(d.VHost, d.Name)); err != nil {
			return Declared{}, err
		}
		if err != nil {
			return Declared{}, err
		}
		return b.declared(ctx, c, Declared{Name: d.Name, UID: uint64(rec.UID)}, about)
	}
	if err := b.permit(ctx, queueOf(d.VHost, d.Name), configure); err != nil {
		return Declared{}, err
	}
	byDefault := vhostDefault(c.View(), d.VHost)
	wanted := policy.Declaration{
		Name: d.Name, Durable: d.Durable, Exclusive: d.Exclusive, AutoDelete: d.AutoDelete, Arguments: d.Arguments,
	}
	cmd := catalog.DeclareQueue{
		VHost: d.VHost, Name: d.Name, Durable: d.Durable, Exclusive: d.Exclusive, AutoDelete: d.AutoDelete,
		Arguments: d.Arguments, Type: requestedType(wanted, byDefault),
	}
	var e policy.Effective
	if rec == nil {
		// what exists is only compared, not checked.
		if err := checkName(d.Name, about); err != nil {
			return Declared{}, err
		}
		if e, err = policy.ResolveDeclaration(wanted, byDefault); err != nil {
			return Declared{}, fromArgument(err, about)
		}
		if err := b.permitNew(ctx, queueOf(d.VHost, d.Name), e.DeadLetterExchange, e.HasDeadLetterExchange); err != nil {
			return Declared{}, err
		}
		cmd.Type = e.QueueType
	}
	reply, err := c.DeclareQueue(ctx, cmd, b.groupSize(d.Arguments, e), e.LeaderLocator == policy.Balanced)
	if err != nil {
		err = translate(err, about)
		if _, exists := c.View().Queue(d.VHost, d.Name); exists {
			err = asState(err)
		}
		return Declared{}, err
	}
	out := Declared{Name: d.Name, UID: uint64(reply.UID), Created: reply.Created, Warnings: e.Warnings}
	if reply.Created {
		return out, nil
	}
	return b.declared(ctx, c, out, about)
}

// TargetSize returns how many members a queue should have if no operator has chosen
// (RE-4); for cluster.Config.GroupSize.
func (b *Broker) TargetSize(v *catalog.View, q *catalog.QueueRecord) int {
	e := b.effective(v, q)
	if e.TargetGroupSize > 0 {
		return e.TargetGroupSize
	}
	return b.groupSize(q.Arguments, e)
}

func (b *Broker) groupSize(args message.Table, e policy.Effective) int {
	if _, asked := args.Get("x-quorum-initial-group-size"); asked && e.GroupSize > 0 {
		return e.GroupSize
	}
	return b.cfg.GroupSize
}

// requestedType is the type that a redeclare means.
func requestedType(d policy.Declaration, byDefault catalog.QueueType) catalog.QueueType {
	if v, ok := d.Arguments.Get("x-queue-type"); ok {
		s, _ := v.AsString()
		return catalog.QueueType(s)
	}
	return policy.DefaultType(d, byDefault)
}

// declared adds the counts of an existing queue, for which a declare is a use (QX-2).
func (b *Broker) declared(ctx context.Context, c *cluster.Cluster, d Declared, about Error) (Declared, error) {
	rec, err := lookUp(c.View(), about.VHost, about.Name)
	if err != nil {
		return Declared{}, err
	}
	if e := b.effective(c.View(), rec); e.ExpiresMs > 0 {
		q, err := c.Queue(rec.UID)
		if err == nil {
			err = q.Renew(ctx)
		}
		if err != nil {
			return Declared{}, translate(err, about)
		}
	}
	s, err := c.QueueStatus(ctx, rec.UID)
	if err != nil {
		return Declared{}, translate(err, about)
	}
	d.Ready, d.Consumers = s.Overview.Ready, s.Overview.Consumers
	return d, nil
}

// Deleted tells what was lost with a queue.
type Deleted struct {
	Ready, Unsettled, Delayed, Backlog uint64
}

// DeleteQueue removes a queue; a missing one is fine. With ifUnused it must have no
// consumer, with ifEmpty no message in any state.
func (b *Broker) DeleteQueue(ctx context.Context, vhost, name string, ifUnused, ifEmpty bool) (Deleted, error) {
	c, err := b.attachedCluster()
	if err != nil {
		return Deleted{}, err
	}
	name = catalog.StripName(name)
	about := Error{VHost: vhost, Kind: "queue", Name: name}
	if err := b.permit(ctx, queueOf(vhost, name), configure); err != nil {
		return Deleted{}, err
	}
	rec, err := lookUp(c.View(), vhost, name)
	if rec == nil {
		if e, ok := err.(*Error); ok && e.Kind == "vhost" { //nolint:errorlint // lookUp wraps nothing
			return Deleted{}, err
		}
		return Deleted{}, nil
	}
	var gone Deleted
	s, err := c.QueueStatus(ctx, rec.UID)
	switch {
	case err == nil:
		o := &s.Overview
		gone = Deleted{Ready: o.Ready, Unsettled: o.Unsettled, Delayed: o.Delayed, Backlog: o.Backlog}
		if err := deletable(o, ifUnused, ifEmpty, about); err != nil {
			return Deleted{}, err
		}
	case ifUnused || ifEmpty:
		// Without a leader nobody knows; without conditions the queue goes all the same.
		return Deleted{}, translate(err, about)
	}
	_, err = c.ProposeCatalog(ctx, &catalog.DeleteQueue{VHost: vhost, Name: name, UID: rec.UID})
	return gone, translate(err, about)
}

func deletable(o *quorumq.Overview, ifUnused, ifEmpty bool, about Error) error {
	about.Class, about.State, about.Value = PreconditionFailed, true, "true"
	messages := o.Ready + o.Unsettled + o.Delayed + o.Backlog
	switch {
	case ifUnused && o.Consumers > 0:
		about.Arg = "if_unused"
		about.Reason = "in use by " + strconv.Itoa(o.Consumers) + " consumers; end them first"
	case ifEmpty && messages > 0:
		about.Arg = "if_empty"
		about.Reason = "holds " + strconv.FormatUint(messages, 10) + " messages (ready " + strconv.FormatUint(o.Ready, 10) +
			", unacknowledged " + strconv.FormatUint(o.Unsettled, 10) + ", delayed " + strconv.FormatUint(o.Delayed, 10) +
			", waiting to be dead-lettered " +
			strconv.FormatUint(o.Backlog, 10) + "); purge it, or delete it without if_empty"
	default:
		return nil
	}
	return &about
}

// RetryDelayed makes up to limit of a queue's delayed messages ready at once, those that are
// due first; 0 stands for all. It returns how many (DR-6).
func (b *Broker) RetryDelayed(ctx context.Context, vhost, name string, limit uint64) (uint64, error) {
	q, about, err := b.queueToRead(ctx, vhost, catalog.StripName(name))
	if err != nil {
		return 0, err
	}
	n, err := q.RetryDelayed(ctx, limit)
	return n, translate(err, about)
}

// PurgeQueue removes ready and delayed messages and the dead-letter backlog, and returns how many
//
func (b *Broker) PurgeQueue(ctx context.Context, vhost, name string) (uint64, error) {
	q, about, err := b.queueToRead(ctx, vhost, catalog.StripName(name))
	if err != nil {
		return 0, err
	}
	n, err := q.Purge(ctx)
	if n > 0 {
		b.leaders.retry(q.UID()) // DL-24: it has room
	}
	return n, translate(err, about)
}
