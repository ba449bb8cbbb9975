package gate

import "math"

// What connections leave free of the process's file descriptors: a share, or as many as usually
// are enough if that is more.
const (
	clientsLeaveShare, clientsLeave, clientsLeaveMost = 4, 512, 2
	ownLeaveShare, ownLeave, ownLeaveMost             = 16, 32, 4
)

// ceilingOf returns the lowest number of a file descriptor that connections may not have. The system
// gives out the lowest number that is free: one that high shows that all below are in use, and who never
// keeps one that high leaves those to the log, snapshots and links.
func ceilingOf(limit int, own bool) int {
	if limit == math.MaxInt {
		return limit
	}
	if own {
		return limit - max(limit/ownLeaveShare, min(ownLeave, limit/ownLeaveMost))
	}
	return limit - max(limit/clientsLeaveShare, min(clientsLeave, limit/clientsLeaveMost))
}

// ownShare is the part of what clients leave that unauthenticated clients at each of the node's own gates may have, but
// fewOwn in any case.
const ownShare, fewOwn = 8, 8

// unauthenticatedOf returns how many unauthenticated clients there may be for want of file descriptors: half of what
// clients may have, so that they keep nobody out who logs in.
func unauthenticatedOf(limit int, own bool) int {
	ceiling := ceilingOf(limit, false)
	if own && limit != math.MaxInt {
		return max(fewOwn, (limit-ceiling)/ownShare)
	}
	return max(1, ceiling/2)
}
