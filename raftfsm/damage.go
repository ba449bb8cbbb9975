package raftfsm

import "errors"

// errBroken is the base of errors about a machine that came upon a broken invariant.
var errBroken = errors.New("broken invariant")

// Damaged reports whether an error of Open, OpenBolt, OpenSnapshots or Group.Failed says
// that stored bytes of this member are not what was written. Such a member must not vote
// or serve again: it may have promised what it no longer knows. It is rebuilt from its peers.
func Damaged(err error) bool { return errors.Is(err, errCorrupt) }

// ErrUnreadable says that stored bytes are whole, and that this build cannot read them. A
// member stops at them, and nothing of it may be removed: a newer build carries on with it.
var ErrUnreadable = errors.New("stored by a newer version of Quorate, which this build cannot read")

// Broken reports whether an error of Group.Failed says that this member's state cannot be: its
// machine has come upon a broken invariant. Its peers may be whole, and it is rebuilt from them.
func Broken(err error) bool { return errors.Is(err, errBroken) }

// Fail stops the member for good because its owner has found that what it stores is
// damaged; the node goes on. It may be called from any goroutine.
func (g *Group[R, E]) Fail(err error) { g.fail(err) }
