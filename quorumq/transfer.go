package quorumq

import (
	"slices"

	"github.com/quorate/quorate/id"
)

// applyTransfer stores the dead letters that are new. It does not remember those that it refuses,
// because the source keeps them and sends them again.
func (q *Queue) applyTransfer(m Meta, c *Transfer) {
	s := q.transfers.of(c.Source)
	s.settle(c.Settled)
	replacing := -1 // how many may still take the place of a message in the backlog; below 0: not counted yet
	for i := range c.DeadLetters {
		l := &c.DeadLetters[i]
		body := BodyRef{Index: m.Index, Slot: m.FirstSlot + uint32(i)}
		switch {
		case s.has(l.Seq):
			q.stats.dedup++
			q.effects.release(body)
		case l.Size == VoidSize:
			q.effects.release(body)
		case q.config.Rules >= RulesSeventh && s.exceeds(l.Seq):
			q.reply.Count++
			q.refuseDeadLetter(l.Seq, body)
		case q.sealed(), q.refuses(1, uint64(l.Size)) && !q.replaces(c.Source, s, l.Seq, &replacing):
			q.refuseDeadLetter(l.Seq, body)
		default:
			s.add(l.Seq)
			q.reply.Stored++
			q.admit(body, &l.NewMessage)
		}
	}
	q.transfers.leave(c.Source)
	slices.Sort(q.refused)
	q.reply.Refused = q.refused
}

// refuseDeadLetter leaves a dead letter to its source (LEN-6). Under reject-publish-dlx it is not dead-lettered either,
// because each retry would make one more.
func (q *Queue) refuseDeadLetter(seq Seq, body BodyRef) {
	q.stats.refused++
	q.refused = append(q.refused, seq)
	q.effects.release(body)
}

// maxReplacing is how many dead letters that a queue has stored from itself may still be in its backlog for it to store
// more above a limit.
const maxReplacing = 64

// replaces reports whether a dead letter that has no room is stored nevertheless, because it comes from this queue: it
// takes the place of the message in the backlog, which counts (LEN-1) and stays until the dead letter is stored. If
// it needed room of its own, a queue full of such messages would make no progress (DL-26). Until the message leaves
// the backlog both count; if it waits for another target too, that may take long, so left bounds how many do.
func (q *Queue) replaces(from id.QueueUID, s *source, seq Seq, left *int) bool {
	if from != q.uid || q.config.Rules < RulesSeventh || q.config.apart() || !q.backlog.set.has(uint64(seq)) {
		return false
	}
	if *left < 0 {
		*left = maxReplacing - q.waitingOf(s, maxReplacing)
	}
	if *left == 0 {
		return false
	}
	*left--
	return true
}

// waitingOf counts the messages of the backlog that the source has stored, up to most.
func (q *Queue) waitingOf(s *source, most int) (n int) {
	for _, r := range s.stored {
		for at := uint64(r.First); ; at++ {
			next, ok := q.backlog.set.next(at)
			if at = next; !ok || at > uint64(r.Last) {
				break
			}
			if n++; n == most {
				return n
			}
		}
	}
	return n
}
