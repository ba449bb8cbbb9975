package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/connections"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/names"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
)

// DeclareQueue describes the queue that a client asks for.
type DeclareQueue struct {
	VHost, Name string
	Durable     bool
	Exclusive   bool
	AutoDelete  bool
	Arguments   message.Table
	Passive     bool // only asks whether the queue exists
}

// declaration returns what policies and arguments are resolved for. The name is still empty if the broker is to choose
// it.
func (d *DeclareQueue) declaration() policy.Declaration {
	return policy.Declaration{
		Name: d.Name, Durable: d.Durable, Exclusive: d.Exclusive, AutoDelete: d.AutoDelete, Arguments: d.Arguments,
	}
}

// Declared is a declared queue with its counts.
type Declared struct {
	Name      string // without CR and LF; chosen by the broker if the client gave none
	UID       uint64
	Created   bool
	Ready     uint64
	Consumers int
	// Warnings name arguments that are accepted but do less than they seem to.
	Warnings []string
}

// DeclareQueue creates a queue unless an equivalent one exists. An exclusive queue belongs to the
// connection of the context.
func (b *Broker) DeclareQueue(ctx context.Context, d DeclareQueue) (Declared, error) {
	c := b.cluster
	d.Name = catalog.StripName(d.Name)
	if d.Passive {
		return b.declarePassive(ctx, c, &d)
	}
	wanted, byDefault := d.declaration(), administration.DefaultQueueTypeOf(c.View(), d.VHost)
	kind := requestedType(wanted, byDefault)
	made := d.Name == "" && kind == catalog.QueueClassic
	if made {
		d.Name = madeUpName()
	}
	about := failure.Error{VHost: d.VHost, Kind: "queue", Name: d.Name}
	if err := b.Permissions.Permit(ctx, permission.Queue(d.VHost, d.Name), permission.Configure); err != nil {
		return Declared{}, err
	}
	b.clients.Counters.QueuesDeclared.Add(1)
	if !made && names.Reserved(d.Name) {
		return Declared{}, names.ErrReserved(about)
	}
	v, err := b.viewToDeclare(ctx, func(v *catalog.View) bool { _, exists := v.Queue(d.VHost, d.Name); return exists })
	if err != nil {
		return Declared{}, err
	}
	rec, _ := v.Queue(d.VHost, d.Name)
	if err := b.Connections.PermitOwner(ctx, rec); err != nil {
		return Declared{}, err
	}
	by, err := b.Logins.DeclaredBy(ctx)
	if err != nil {
		return Declared{}, err
	}
	cmd := catalog.DeclareQueue{
		VHost: d.VHost, Name: d.Name, Durable: d.Durable, Exclusive: d.Exclusive, AutoDelete: d.AutoDelete,
		Arguments: d.Arguments, Type: kind, DeclaredBy: by,
	}
	if d.Exclusive {
		owner, err := b.Connections.NewOwner(ctx, about)
		if err != nil {
			return Declared{}, err
		}
		cmd.Owner = owner
	}
	unknown, err := b.unknown.of(ctx, c.View(), about, d.Arguments, policy.UnknownOfQueue(d.Arguments), rec == nil)
	if err != nil {
		return Declared{}, err
	}
	e := argument.Default(kind == catalog.QueueClassic)
	switch {
	case rec == nil:
		if e, err = b.checkNew(ctx, &d, wanted, byDefault); err != nil {
			return Declared{}, err
		}
	case b.cfg.RelaxedTypeCheck && (kind == catalog.QueueQuorum || kind == catalog.QueueClassic),
		rec.Type == catalog.QueueClassic && argument.AsksForClassic(d.Arguments):
		cmd.Type = rec.Type // what exists is only compared, not checked
	}
	before := c.View()
	reply, err := b.enter(ctx, v, cmd, e, made)
	if a := audit.NotesOf(ctx); err == nil || reply.Created { // RE-1: even without a leader the queue is declared
		a.Named(d.Name)
		a.Committed(before, &cmd, reply)
	}
	if d.Exclusive && reply.Created {
		connections.ConnectionOf(ctx).Owns(reply.UID)
	}
	if err != nil {
		err = aboutDeclaration(failure.Translate(err, about), d.Arguments, argumentsOf(c.View(), permission.Queue(d.VHost, d.Name)))
		if _, exists := c.View().Queue(d.VHost, d.Name); exists {
			err = failure.AsState(err)
		}
		return Declared{}, err
	}
	out := Declared{Name: d.Name, UID: uint64(reply.UID), Created: reply.Created, Warnings: append(unknown, e.Warnings...)}
	if reply.Created {
		return out, nil
	}
	return b.found(ctx, d, out, about)
}

// found describes the queue that a declare has found. If that one ends at this moment, because it is deleted or
// expired before the declare could defer that (QX-2), a new one is declared.
func (b *Broker) found(ctx context.Context, d DeclareQueue, out Declared, about failure.Error) (Declared, error) {
	uid := id.QueueUID(out.UID)
	var there bool
	out, err := b.declared(ctx, b.cluster, out, about)
	switch {
	case err == nil:
		return out, nil
	case errors.Is(err, traffic.ErrDrainDeleting):
		about.Class, about.Reason = failure.ResourceLocked, failure.DeletingReason
		err, there = &about, b.awaitDrainDeleted(ctx, b.cluster, uid)
	default:
		_, there = b.view().QueueByUID(uid)
	}
	if there {
		return Declared{}, err
	}
	return b.DeclareQueue(ctx, d)
}

// enter enters a queue into the catalog, or compares the declare with the queue that the view has. made: the broker
// chose the name.
func (b *Broker) enter(ctx context.Context, v *catalog.View, cmd catalog.DeclareQueue, e argument.Settings, made bool) (catalog.Reply, error) {
	if _, exists := v.Queue(cmd.VHost, cmd.Name); exists {
		return compared(v, &cmd)
	}
	declare := b.cluster.Operator().DeclareQueue
	if made {
		declare = b.cluster.Operator().DeclareUnnamed
	}
	return declare(ctx, cmd, e.GroupSize, e.BalancedLeader)
}

// declarePassive describes a queue if it exists.
func (b *Broker) declarePassive(ctx context.Context, c *cluster.Cluster, d *DeclareQueue) (Declared, error) {
	if err := b.Permissions.PermitAny(ctx, permission.Queue(d.VHost, d.Name)); err != nil {
		return Declared{}, err
	}
	rec, err := serving.LookUp(c.View(), d.VHost, d.Name)
	about := failure.Error{VHost: d.VHost, Kind: "queue", Name: d.Name}
	if err == nil {
		err = b.Connections.PermitOwner(ctx, rec)
	}
	if err == nil && rec.DrainDeleting > 0 {
		about.Class, about.Reason = failure.NotFound, failure.DrainDeletingReason
		err = &about
	}
	if err != nil {
		return Declared{}, err
	}
	return b.declared(ctx, c, Declared{Name: d.Name, UID: uint64(rec.UID)}, about)
}

// checkNew returns the settings of a queue that is to be created. It refuses settings or a name that the caller may not
// use. The name is in d, even if wanted leaves it to the broker.
func (b *Broker) checkNew(
	ctx context.Context, d *DeclareQueue, wanted policy.Declaration, byDefault catalog.QueueType,
) (argument.Settings, error) {
	about := failure.Error{VHost: d.VHost, Kind: "queue", Name: d.Name}
	if d.Name == wanted.Name {
		if err := names.Check(d.Name, about); err != nil {
			return argument.Settings{}, err
		}
	}
	e, err := policy.ResolveDeclaration(wanted, byDefault)
	if err != nil {
		return e, aboutDeclaration(failure.FromArgument(err, about), d.Arguments, nil)
	}
	return e, b.Permissions.PermitNew(ctx, permission.Queue(d.VHost, d.Name), e.DeadLetterExchange, e.HasDeadLetterExchange)
}

// madeUpChars is the number of random characters in a name that the broker chooses, with 5 bits each.
const madeUpChars = 22

// madeUpName returns the name of a queue whose client leaves it to the broker.
func madeUpName() string { return "amq.gen-" + rand.Text()[:madeUpChars] }

// requestedType returns the type that a declare asks for, in its arguments or by default.
func requestedType(d policy.Declaration, byDefault catalog.QueueType) catalog.QueueType {
	if v, ok := d.Arguments.Get(argument.QueueType); ok {
		s, _ := v.AsString()
		return catalog.QueueType(s)
	}
	return policy.DefaultType(d, byDefault)
}

// declared adds the counts of an existing queue. A declare counts as a use of the queue and so defers its expiry
// (QX-2).
func (b *Broker) declared(ctx context.Context, c *cluster.Cluster, d Declared, about failure.Error) (Declared, error) {
	rec, err := serving.LookUp(c.View(), about.VHost, about.Name)
	if err != nil {
		return Declared{}, err
	}
	if e := b.policies.InForce(c.View(), rec); e.ExpiresMs > 0 {
		q, err := c.Gateway().Queue(rec.UID)
		if err == nil {
			err = q.Renew(ctx)
		}
		if err != nil {
			return Declared{}, failure.Translate(err, about)
		}
	}
	s, err := c.Leaders().Status(ctx, rec.UID)
	if err != nil {
		return Declared{}, failure.Translate(err, about)
	}
	if s.Overview.DrainDeleting { // its deletion is decided (Q-15, QX-3)
		return Declared{}, failure.Translate(fmt.Errorf("queue %s: %w", rec.UID, traffic.ErrDrainDeleting), about)
	}
	d.Ready, d.Consumers = s.Overview.Ready, s.Overview.Consumers
	return d, nil
}
