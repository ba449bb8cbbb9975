package quorumq

import "math"

// levels is the number of priority levels (PR-1); ordBits of an ordinal name the level.
const (
	levels  = 32
	ordBits = 5
)

// message is a ready message: 40 bytes without pointers. Its size is VoidSize once it
// was taken out of the middle of its deque.
type message struct {
	ord   uint64 // enqueue ordinal, from 1, above the priority level's 5 bits
	index uint64 // BodyRef
	at    Time   // when it was enqueued
	ttl   int64  // its own TTL in milliseconds; Unlimited: none
	slot  uint32 // BodyRef
	size  uint32 // bytes of body
}

func (m *message) level() int      { return int(m.ord & (levels - 1)) }
func (m *message) body() BodyRef   { return BodyRef{Index: m.index, Slot: m.slot} }
func (m *message) key() uint64     { return m.ord }
func (m *message) isRemoved() bool { return m.size == VoidSize }
func (m *message) remove()         { m.size = VoidSize }

// held is a message that was assigned at least once, with what that left on it.
type held struct {
	message
	annIndex uint64 // BodyRef of annotations; both zero: none
	annSlot  uint32
	failures uint32 // delivery_count (DEL-10)
	acquired uint32 // acquired_count (DEL-10)
}

func (h *held) annotations() BodyRef { return BodyRef{Index: h.annIndex, Slot: h.annSlot} }

// returned is a message that was given back; number orders the returned list (DEL-1).
type returned struct {
	held
	number uint64
}

func (r *returned) key() uint64 { return r.number }

// discarded is a message of the backlog (DL-21).
type discarded struct {
	seq      Seq
	index    uint64
	annIndex uint64
	at       Time // when it was discarded
	slot     uint32
	annSlot  uint32
	size     uint32
	failures uint32
	acquired uint32
	reason   Reason
}

func (d *discarded) key() uint64          { return uint64(d.seq) }
func (d *discarded) isRemoved() bool      { return d.size == VoidSize }
func (d *discarded) remove()              { d.size = VoidSize }
func (d *discarded) body() BodyRef        { return BodyRef{Index: d.index, Slot: d.slot} }
func (d *discarded) annotations() BodyRef { return BodyRef{Index: d.annIndex, Slot: d.annSlot} }

// expiry returns when a message expires under the configuration in force, 0 for never.
// It is computed, not stored, so that a changed message-ttl reaches messages that are
// already here by their age (TTL-1, PO-9).
func (q *Queue) expiry(m *message) Time {
	ttl := m.ttl
	if t := q.config.MessageTTLMs; t >= 0 && (ttl < 0 || t < ttl) {
		ttl = t
	}
	if ttl < 0 {
		return 0
	}
	return after(m.at, max(ttl, 1))
}

// after returns t + ms, at most the end of time.
func after(t Time, ms int64) Time {
	if ms > math.MaxInt64-int64(t) {
		return math.MaxInt64
	}
	return t + Time(ms)
}
