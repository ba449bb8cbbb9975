package catalog

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
)

// StripName removes CR and LF from the name of a queue or exchange as supplied in a
// declare or delete (C-3). Callers do it before they make a command.
func StripName(name string) string {
	return strings.NewReplacer("\r", "", "\n", "").Replace(name)
}

// declareQueue creates the queue or compares with the one that exists. Limits come last: a
// redeclaration needs no room.
func (v *View) declareQueue(c *DeclareQueue) (Reply, *Error) {
	h, ok := v.vhosts.get(c.VHost)
	if !ok {
		return Reply{}, noVHost(c.VHost)
	}
	if old, exists := h.queues.get(c.Name); exists && old.DrainDeleting > 0 {
		return Reply{}, old.beingDeleted()
	} else if exists {
		return Reply{UID: old.UID}, old.equivalent(c)
	}
	e := Error{Code: CodePreconditionFailed, Kind: "queue", Name: c.Name, VHost: c.VHost}
	switch {
	case c.Name == "":
		e.Reason = "the name is empty; the broker names a queue before it declares it"
		return Reply{}, &e
	case !e.nameFits(c.Name):
		return Reply{}, &e
	case c.Type != QueueQuorum && c.Type != QueueClassic:
		e.Arg, e.Value, e.Reason = argument.QueueType, strconv.Quote(string(c.Type)), `want "quorum" or "classic"`
		return Reply{}, &e
	}
	if err := checkArguments(e, c.Arguments); err != nil {
		return Reply{}, err
	}
	if err := v.checkMembers(e, c.Members, c.Leader); err != nil {
		return Reply{}, err
	}
	if err := v.checkLife(e, c); err != nil {
		return Reply{}, err
	}
	if most := h.rec.MaxQueues; most != Unlimited && int64(h.queues.len()) >= most { // VH-4
		e.Arg, e.Value = "max-queues", strconv.FormatInt(most, 10)
		e.Reason = fmt.Sprintf("the vhost has %d queues; delete some, or raise the limit", h.queues.len())
		return Reply{}, &e
	}
	if err := v.checkDeclarer(e, c); err != nil {
		return Reply{}, err
	}
	q := &QueueRecord{
		UID: v.nextUID, VHost: c.VHost, Name: c.Name, Type: c.Type,
		Durable: c.Durable, Exclusive: c.Exclusive, AutoDelete: c.AutoDelete,
		Arguments: c.Arguments, Members: c.Members, Leader: c.Leader,
		CreatedMs: v.now, Index: v.index, DeclaredBy: c.DeclaredBy,
		declared: v.index, founders: c.Members,
	}
	if u, ok := v.users.get(c.DeclaredBy); ok {
		q.declarerSince = u.since
	}
	if q.Exclusive {
		q.Owner = c.Owner
	}
	if !q.Durable {
		q.Home = c.Home
	}
	v.nextUID++
	v.putQueue(h, q)
	v.countDeclared(q, 1)
	return Reply{UID: q.UID, Created: true}, nil
}

// putQueue stores a record under its name and its UID. Every change of a queue goes through here,
// so that both always hold the same pointer.
func (v *View) putQueue(h vhost, q *QueueRecord) {
	h.queues = h.queues.set(q.Name, q)
	v.vhosts = v.vhosts.set(q.VHost, h)
	v.queues = v.queues.set(q.UID, q)
}

// equivalent checks a redeclaration: properties, type and every known argument
// that either side carries, by class of type and value.
func (q *QueueRecord) equivalent(c *DeclareQueue) *Error {
	e := Error{Code: CodePreconditionFailed, Kind: "queue", Name: q.Name, VHost: q.VHost}
	if c.Exclusive != q.Exclusive {
		e.Code = CodeResourceLocked
		return e.inequivalent("exclusive", strconv.FormatBool(c.Exclusive), strconv.FormatBool(q.Exclusive))
	}
	if q.Exclusive && c.Owner != q.Owner {
		return q.Locked()
	}
	if c.Durable != q.Durable {
		return e.inequivalent("durable", strconv.FormatBool(c.Durable), strconv.FormatBool(q.Durable))
	}
	if c.AutoDelete != q.AutoDelete {
		return e.inequivalent("auto_delete", strconv.FormatBool(c.AutoDelete), strconv.FormatBool(q.AutoDelete))
	}
	if c.Type != q.Type {
		return e.inequivalent(argument.QueueType, strconv.Quote(string(c.Type)), strconv.Quote(string(q.Type)))
	}
	return e.sameArguments(q.compares, c.Arguments, q.Arguments)
}

// compares reports whether a redeclaration must repeat an argument. The type was compared in its
// resolved form, so naming the default is no difference.
func (q *QueueRecord) compares(name string) bool {
	return argument.ComparedOn(name, q.Type == QueueClassic)
}

// Locked is the error for any connection but the owner of an exclusive queue.
func (q *QueueRecord) Locked() *Error {
	return &Error{
		Code: CodeResourceLocked, Kind: "queue", Name: q.Name, VHost: q.VHost, Arg: "exclusive", Value: "true",
		Reason: "belongs to another connection, which alone may use it; publish to it through an exchange, or declare a queue of your own",
	}
}

// checkLife checks that what the queue's life depends on exists: the present life of its node, or
// of its owner's node.
func (v *View) checkLife(e Error, c *DeclareQueue) *Error {
	if c.Exclusive {
		e.Arg, e.Value = "exclusive", "true"
		n, known := v.nodes.get(c.Owner.Node)
		switch {
		case c.Owner.Key == "" || len(c.Owner.Key) > MaxNameBytes:
			e.Reason = "needs a connection that the queue belongs to"
			return &e
		case !known || n.Epoch != c.Owner.Epoch:
			e.Reason = fmt.Sprintf("the connection that it shall belong to is of an earlier life of node %q; connect again", c.Owner.Node)
			return &e
		}
	}
	if !c.Durable {
		e.Arg, e.Value = "durable", "false"
		if n, _ := v.nodes.get(c.Members[0]); len(c.Members) != 1 || n.Epoch != c.Home {
			e.Reason = fmt.Sprintf("lives on one node as long as that runs; %q in its life %d are others", c.Members, c.Home)
			return &e
		}
	}
	return nil
}

// endLives deletes the queues for which gone is true.
func (v *View) endLives(gone func(*QueueRecord) bool) {
	var ended []*QueueRecord
	for q := range v.Queues() {
		if gone(q) {
			ended = append(ended, q)
		}
	}
	for _, q := range ended {
		if on, _ := q.Arguments.Get(argument.OnDelete); q.Durable && on.EqualClass(message.String(argument.OnDeleteDeadLetter)) {
			_, _ = v.drainDeleteQueue(&DrainDeleteQueue{VHost: q.VHost, Name: q.Name, UID: q.UID})
			continue
		}
		_, _ = v.deleteQueue(&DeleteQueue{VHost: q.VHost, Name: q.Name, UID: q.UID})
	}
}

// EndsWith reports whether a queue ends with a node: it is transient and lives there, or belongs to
// one of the node's connections.
func (q *QueueRecord) EndsWith(n id.NodeID) bool { return q.endsWith(n, math.MaxUint64) }

// endsWith reports whether a queue ends with the node's lives before the epoch.
func (q *QueueRecord) endsWith(n id.NodeID, before id.Epoch) bool {
	return q.Exclusive && q.Owner.Node == n && q.Owner.Epoch < before ||
		!q.Durable && q.Members[0] == n && q.Home < before
}

// sameArguments compares the known arguments of a redeclaration with the stored ones and
// names the first that differs: in the order of the redeclaration, then of the stored.
func (e Error) sameArguments(known func(string) bool, received, stored message.Table) *Error {
	for _, f := range received {
		if !known(f.Name) {
			continue
		}
		have, ok := stored.Get(f.Name)
		if !ok {
			return e.inequivalent(f.Name, f.Value.String(), "none")
		}
		if want, _ := received.Get(f.Name); !want.EqualClass(have) {
			if want.Kind() == have.Kind() {
				return e.inequivalent(f.Name, want.String(), have.String())
			}
			return e.inequivalent(f.Name, want.Kind().String()+" "+want.String(), have.Kind().String()+" "+have.String())
		}
	}
	for _, f := range stored {
		if _, ok := received.Get(f.Name); !ok && known(f.Name) {
			return e.inequivalent(f.Name, "none", f.Value.String())
		}
	}
	return nil
}

// inequivalent completes an error about a redeclaration that differs (Q-13, EX-5).
func (e Error) inequivalent(arg, received, current string) *Error {
	e.Arg, e.Value, e.Current = arg, received, current
	e.Reason = fmt.Sprintf("inequivalent to the existing %s: received %s, current %s; "+
		"declare it with the current value, or delete it first", e.Kind, received, current)
	return &e
}

// deleteQueue removes the queue with its bindings. With a UID it removes that queue alone, never a
// later one of the same name.
func (v *View) deleteQueue(c *DeleteQueue) (Reply, *Error) {
	h, ok := v.vhosts.get(c.VHost)
	if !ok {
		return Reply{}, noVHost(c.VHost)
	}
	q, ok := h.queues.get(c.Name)
	if !ok || (c.UID != 0 && c.UID != q.UID) {
		return Reply{}, nil
	}
	h.queues = h.queues.without(q.Name)
	h = h.unbindAllTo(ToQueue, q.Name)
	v.vhosts = v.vhosts.set(c.VHost, h)
	v.countDeclared(q, -1)
	v.queues = v.queues.without(q.UID)
	return Reply{UID: q.UID, Deleted: true}, nil
}

// drainDeleteQueue marks the queue and takes its bindings. The record stays, and with it the
// name, until the leader has handed on every message and proposes DeleteQueue.
func (v *View) drainDeleteQueue(c *DrainDeleteQueue) (Reply, *Error) {
	h, ok := v.vhosts.get(c.VHost)
	if !ok {
		return Reply{}, noVHost(c.VHost)
	}
	q, ok := h.queues.get(c.Name)
	switch {
	case !ok || (c.UID != 0 && c.UID != q.UID):
		return Reply{}, nil
	case q.DrainDeleting > 0:
		return Reply{UID: q.UID}, nil
	}
	marked := *q
	marked.DrainDeleting, marked.Index = v.index, v.index
	v.putQueue(h.unbindAllTo(ToQueue, q.Name), &marked)
	return Reply{UID: q.UID}, nil
}

// beingDeleted is the error of a declare for a queue that is being deleted.
func (q *QueueRecord) beingDeleted() *Error {
	return &Error{
		Code: CodeResourceLocked, Kind: "queue", Name: q.Name, VHost: q.VHost, Arg: argument.OnDelete, Value: strconv.Quote(argument.OnDeleteDeadLetter),
		Reason: "is being deleted: its messages are dead-lettered first; wait until it is gone, choose another name, or delete it without dead-lettering",
	}
}

// nameFits reports whether the name of a new queue or exchange is short enough and valid UTF-8
// (C-3), and completes e if not.
func (e *Error) nameFits(name string) bool {
	switch {
	case len(name) > MaxNameBytes:
		e.Arg, e.Reason = "name", fmt.Sprintf("%d bytes, the limit is %d", len(name), MaxNameBytes)
		return false
	case !utf8.ValidString(name):
		e.Arg, e.Reason = "name", "is not valid UTF-8"
		return false
	}
	return true
}

func noVHost(name string) *Error {
	return &Error{Code: CodeNotFound, Kind: "vhost", Name: name, VHost: name, Reason: "does not exist"}
}

// checkArguments bounds names, depth and size of an argument table.
func checkArguments(e Error, t message.Table) *Error {
	if err := message.CheckTable("arguments", t); err != nil {
		e.Arg, e.Reason = "arguments", err.Error()
		return &e
	}
	return nil
}
