package quorumq

// unit is the state of an Enqueue within messages of which all or none are stored (PUB-9). The
// first message of a unit that is not a repeat decides whether the unit is stored.
type unit struct {
	joined  bool // the message is one of several
	left    int  // how many messages of the unit follow
	refused bool // none of them is stored
}

// unitBytes returns the size of a whole unit; false if one of its messages is a void.
func unitBytes(messages []NewMessage) (bytes uint64, ok bool) {
	for i := range messages {
		if messages[i].Size == VoidSize {
			return 0, false
		}
		bytes += uint64(messages[i].Size)
	}
	return bytes, true
}

// next moves on to the next message of an Enqueue, the first of messages. It returns the unit that
// begins with it, nil if none does; a repeat begins none.
func (u *unit) next(messages []NewMessage, repeat bool) []NewMessage {
	if u.left > 0 {
		u.left--
		return nil
	}
	*u = unit{}
	if repeat || !messages[0].Joined {
		return nil
	}
	for u.left < len(messages)-1 && messages[u.left].Joined {
		u.left++
	}
	u.joined = true
	return messages[:u.left+1]
}
