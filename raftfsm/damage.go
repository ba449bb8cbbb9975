package raftfsm

import "errors"

// Damaged tells whether an error of Open, OpenBolt, OpenSnapshots or Group.Failed says
// that stored bytes of this member are not what was written. Such a member must not vote
// or serve again: it may have promised what it no longer knows. Its files are to be
// removed, and it is rebuilt from its peers.
func Damaged(err error) bool { return errors.Is(err, errCorrupt) }

// Fail stops the member for good because its owner has found that what it stores is
// damaged; the node goes on. It may be called from any goroutine.
func (g *Group[R, E]) Fail(err error) { g.fail(err) }
