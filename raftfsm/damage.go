package raftfsm

import "errors"

// errBroken is the base of errors about a machine that came upon a broken invariant.
var errBroken = errors.New("broken invariant")

// Damaged reports whether an error of Open, OpenBolt, OpenSnapshots or Group.Failed means that
// stored bytes of this member are damaged. Such a member must not vote or serve again, because it
// may have lost votes or entries that it promised. It is rebuilt from its peers.
func Damaged(err error) bool { return errors.Is(err, errCorrupt) }

// ErrUnreadable reports that stored bytes are intact, but this build cannot read them. A member
// stops at them, and its files must stay: a newer build continues with them.
var ErrUnreadable = errors.New("stored by a newer version of Quorate, which this build cannot read")

// Broken reports whether an error of Group.Failed means that this member's state is invalid: its
// machine has found a broken invariant. Its peers may be intact, and it is rebuilt from them.
func Broken(err error) bool { return errors.Is(err, errBroken) }

// Fail stops the member for good because its owner has found its stored state damaged; the node
// continues. It may be called from any goroutine.
func (g *Group[R, E]) Fail(err error) { g.fail(err) }
