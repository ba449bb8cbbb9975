package quorumq

import (
	"iter"
	"slices"
)

// Live yields the bodies that the state refers to one by one.
func (q *Queue) Live() iter.Seq[BodyRef] { return slices.Values(frozenBodies(q.share())) }
