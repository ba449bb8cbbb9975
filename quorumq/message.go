package quorumq

import "math"

// message is a ready message: 40 bytes without pointers. In a window, its size is VoidSize once it
// is settled.
type message struct {
	ord   uint64 // enqueue ordinal, from 1, above the priority level's 5 bits
	index uint64 // BodyRef
	at    Time   // when it was enqueued
	ttl   int64  // its own TTL in milliseconds; Unlimited: none
	slot  uint32 // BodyRef
	size  uint32 // bytes of body
}

func (m *message) level() int    { return int(m.ord & (levels - 1)) }
func (m *message) body() BodyRef { return BodyRef{Index: m.index, Slot: m.slot} }
func (m *message) key() uint64   { return m.ord >> ordBits }

func (*message) width() int { return 5 }

// put leaves out the ordinal, because it follows from the key and the tag of the level.
func (m *message) put(c *columns, i int) {
	c[0][i] = m.index
	c[1][i] = uint64(m.slot)
	c[2][i] = uint64(m.size)
	c[3][i] = uint64(m.at)
	c[4][i] = uint64(m.ttl + 1)
}

// get gets the level as tag.
func (m *message) get(c *columns, i int, key, tag uint64) {
	*m = message{
		ord: key<<ordBits | tag, index: c[0][i], slot: narrow(c[1][i]), size: narrow(c[2][i]),
		at: Time(c[3][i]), ttl: int64(c[4][i]) - 1,
	}
}

func (m *message) valid() bool { return m.ord > 0 && m.slot != outOfRange && m.size != outOfRange }

// outOfRange is the result of narrow for a number that does not fit into 32 bits. No size and no
// slot has this value.
const outOfRange = VoidSize

func narrow(v uint64) uint32 { return uint32(min(v, uint64(outOfRange))) }

// held is a message that was assigned at least once, with the traces of that.
type held struct {
	message
	annIndex uint64 // BodyRef of annotations; both zero: none
	annSlot  uint32
	failures uint32 // delivery_count (DEL-10)
	acquired uint32 // acquired_count (DEL-10)
}

func (h *held) isRemoved() bool { return h.size == VoidSize }
func (h *held) remove()         { h.size = VoidSize }

// put writes the ordinal too, because returned messages of all levels share a deque.
func (h *held) put(c *columns, i int) {
	h.message.put(c, i)
	c[5][i] = h.ord
	c[6][i] = h.annIndex
	c[7][i] = uint64(h.annSlot)
	c[8][i] = uint64(h.failures)
	c[9][i] = uint64(h.acquired)
}

// get reads what put writes.
func (h *held) get(c *columns, i int) {
	h.message.get(c, i, 0, 0)
	h.ord = c[5][i]
	h.annIndex, h.annSlot = c[6][i], narrow(c[7][i])
	h.failures, h.acquired = narrow(c[8][i]), narrow(c[9][i])
}

// valid does not check the ordinal, because a message that was never ready has none.
func (h *held) valid() bool {
	return h.slot != outOfRange && h.size != outOfRange && h.annSlot != outOfRange &&
		h.failures != outOfRange && h.acquired != outOfRange
}

func (h *held) annotations() BodyRef { return BodyRef{Index: h.annIndex, Slot: h.annSlot} }

// returned is a message that was returned; number is its position in the returned list (DEL-1).
type returned struct {
	held
	number uint64
}

func (*returned) width() int { return 10 }

// get takes the number from the key.
func (r *returned) get(c *columns, i int, key, _ uint64) {
	r.held.get(c, i)
	r.number = key
}

func (r *returned) valid() bool {
	return r.ord > 0 && r.held.valid()
}

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
	reason   Reason // 0: moved
	to       uint16 // number of the destination that it is moved to; 0: a dead letter
}

func (d *discarded) body() BodyRef        { return BodyRef{Index: d.index, Slot: d.slot} }
func (d *discarded) annotations() BodyRef { return BodyRef{Index: d.annIndex, Slot: d.annSlot} }

func (*discarded) width() int { return 9 }

// put leaves out the number, which is the key.
func (d *discarded) put(c *columns, i int) {
	c[0][i] = d.index
	c[1][i] = uint64(d.slot)
	c[2][i] = uint64(d.size)
	c[3][i] = uint64(d.at)
	c[4][i] = d.cause()
	c[5][i] = d.annIndex
	c[6][i] = uint64(d.annSlot)
	c[7][i] = uint64(d.failures)
	c[8][i] = uint64(d.acquired)
}

// get takes the number from the key.
func (d *discarded) get(c *columns, i int, key, _ uint64) {
	*d = discarded{
		seq: Seq(key), index: c[0][i], slot: narrow(c[1][i]), size: narrow(c[2][i]), at: Time(c[3][i]),
		annIndex: c[5][i], annSlot: narrow(c[6][i]),
		failures: narrow(c[7][i]), acquired: narrow(c[8][i]),
	}
	d.setCause(c[4][i])
}

// valid does not check reason and destination; backlog.check does.
func (d *discarded) valid() bool {
	return d.seq > 0 && d.slot != outOfRange && d.size != outOfRange && d.annSlot != outOfRange &&
		d.failures != outOfRange && d.acquired != outOfRange
}

// delayed is a message that becomes ready later. One that no consumer has had yet (DLY-1) has no
// enqueue ordinal; it gets one when it is ready, as if it arrived then.
type delayed struct {
	held
	number uint64 // in the order in which messages were delayed
	due    Time
}

// fresh reports whether the message was never ready.
func (d *delayed) fresh() bool { return d.key() == 0 }

func (*delayed) width() int { return 11 }

// put leaves out the number, which is the key.
func (d *delayed) put(c *columns, i int) {
	d.held.put(c, i)
	c[10][i] = uint64(d.due)
}

// get takes the number from the key.
func (d *delayed) get(c *columns, i int, key, _ uint64) {
	d.held.get(c, i)
	d.number = key
	d.due = Time(c[10][i])
}

func (d *delayed) valid() bool { return d.held.valid() && d.due > 0 }

// In the column of reasons, a moved message has moveBase plus the number of its destination.
const moveBase = 1 << 8

// cause returns the number for the column of reasons: the reason, or moveBase plus the destination.
func (d *discarded) cause() uint64 {
	if d.to != 0 {
		return moveBase + uint64(d.to)
	}
	return uint64(d.reason)
}

// setCause is the inverse of cause. A number that is out of range becomes an invalid reason.
func (d *discarded) setCause(v uint64) {
	if v > moveBase {
		d.to = uint16(min(v-moveBase, math.MaxUint16))
		return
	}
	d.reason = Reason(min(v, uint64(LastReason)+1))
}

// assigned is a message that a consumer holds.
type assigned struct {
	held
	id     MsgID
	number uint64 // of the assignment, counted over all consumers
	due    Time   // the ack deadline (CT-1); 0: none
}

// seed returns the number from which the jitter of the message's next wait is computed.
func (h *held) seed() uint64 {
	return scatter(scatter(h.index)^uint64(h.slot)) ^ uint64(h.acquired)
}

// count counts an assignment and, if it failed, a failure. All ways to end an assignment but
// settling count (DEL-8).
func (h *held) count(failed bool) {
	h.acquired++
	if failed {
		h.failures++
	}
}

// check returns an inconsistency of a message that was ready before.
func (h *held) check(now Time, nextOrd uint64) error {
	if h.ord>>ordBits == 0 || h.ord>>ordBits >= nextOrd || h.at > now || h.at < 0 || h.ttl < Unlimited {
		return inv("message %#x enqueued at %d with TTL %d, now %d, next ordinal %d", h.ord, h.at, h.ttl, now, nextOrd)
	}
	return nil
}
