package gate

import "math"

// How many of the process's file descriptors connections leave free: a share, or the usual need if
// that is more.
const (
	clientsLeaveShare, clientsLeave, clientsLeaveMost = 4, 512, 2
	ownLeaveShare, ownLeave, ownLeaveMost             = 16, 32, 4
)

// ceilingOf returns the lowest file descriptor that connections may not have. The system always
// gives out the lowest free number, so a descriptor this high shows that all lower ones are in use.
// By never keeping a connection with such a descriptor, the gate leaves the range to the log,
// snapshots and links.
func ceilingOf(limit int, own bool) int {
	if limit == math.MaxInt {
		return limit
	}
	if own {
		return limit - max(limit/ownLeaveShare, min(ownLeave, limit/ownLeaveMost))
	}
	return limit - max(limit/clientsLeaveShare, min(clientsLeave, limit/clientsLeaveMost))
}

// ownShare is the part of the descriptors left by clients that unauthenticated clients of each of
// the node's own gates may use. fewOwn is the least in any case.
const ownShare, fewOwn = 8, 8

// unauthenticatedOf returns how many unauthenticated clients the file descriptors allow: half of
// what clients may have, so that clients which log in still find room.
func unauthenticatedOf(limit int, own bool) int {
	ceiling := ceilingOf(limit, false)
	if own && limit != math.MaxInt {
		return max(fewOwn, (limit-ceiling)/ownShare)
	}
	return max(1, ceiling/2)
}
