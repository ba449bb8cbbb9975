package quorumq

// unit is what an Enqueue is working on of messages that are stored all or not at all
// (PUB-9).
type unit struct {
	joined  bool // the message is one of several
	left    int  // how many of the unit come after it
	refused bool // none of them is stored
}

// lookAhead takes the next message of an Enqueue, the first of those given. Whether a unit
// is stored is decided with its first message that is not a repeat.
func (q *Queue) lookAhead(u *unit, messages []NewMessage, repeat bool) {
	if u.left > 0 {
		u.left--
		return
	}
	*u = unit{}
	if repeat || !messages[0].Joined {
		return
	}
	for u.left < len(messages)-1 && messages[u.left].Joined {
		u.left++
	}
	u.joined, u.refused = true, q.refusesAll(messages[:u.left+1])
}

// refusesAll tells whether a unit is refused: one of its messages is a void, or a limit has
// no room for all of them.
func (q *Queue) refusesAll(messages []NewMessage) bool {
	size := uint64(0)
	for i := range messages {
		if messages[i].Size == VoidSize {
			return true
		}
		size += uint64(messages[i].Size)
	}
	return q.refuses() && q.exceeds(uint64(len(messages)), size)
}

// enqueueJoined stores or refuses one message of a unit. What has been decided about the
// unit holds for all of it, also if a limit is reached on the way: it may be exceeded by
// that one unit.
func (q *Queue) enqueueJoined(body BodyRef, nm *NewMessage, u *unit) bool {
	switch {
	case !u.refused:
		q.reply.Stored++
		q.admit(body, nm)
	case nm.Size == VoidSize:
		q.effects.release(body)
	default:
		q.refuse(body, nm)
	}
	return !u.refused
}
