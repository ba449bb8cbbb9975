package liveness

import (
	"time"

	"github.com/quorate/quorate/id"
)

// peer is another node as this one sees it.
type peer struct {
	lost    bool
	judged  time.Time     // when it was found lost, or not; zero: never looked at
	silent  time.Duration // for how long something of it was missing at the last look
	steady  steadiness
	stalled bool // by its own word, or by silence about it: not set
	toAsk   bool // a member here counts on it, and no heartbeat shows whether it leads

	led      digest // groups that this node leads and the peer is a voter of
	believed digest // groups that the peer leads, as far as members here know
	said     digest // groups that it leads and this node is a voter of, by its last heartbeat
	saidAt   time.Time

	mismatchedSince time.Time // since when said and believed differ; zero: they do not
	askAt           time.Time // not before this is it asked again
	askWait         time.Duration
	asked           [2]digest // said and believed when it was asked
}

// digest is a set of groups, small enough for a heartbeat.
type digest struct{ count, sum uint64 }

func (d *digest) add(g id.GroupID) { d.count++; d.sum += mix(uint64(g)) }

func (d *digest) remove(g id.GroupID) { d.count--; d.sum -= mix(uint64(g)) }

// mix spreads a number's bits over all others (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// mixNode is mix of a node's id and a number.
func mixNode(n id.NodeID, x uint64) uint64 {
	for i := range len(n) {
		x = mix(x ^ uint64(n[i]))
	}
	return mix(x)
}
