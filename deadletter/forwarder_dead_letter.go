package deadletter

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/tracing"
)

// deadLetter is one dead letter that the forwarder knows of. There may be MaxDeadLetters of them, so
// it is small; its message is held only while some target of it can be tried.
type deadLetter struct {
	d     quorumq.Discarded
	at    uint64 // index of the view that it was last routed by
	cause Cause  // why it waits, when it has no pending target
	gone  bool   // settled by this forwarder, or purged
	done  bool   // every target has it
	// doubtful: nobody knows whether the target of a Transfer has it.
	doubtful bool

	pending []pendingTarget
	stored  []id.QueueUID // targets that have it
	only    [1]pendingTarget

	load *load // nil: the message is not held
}

// load is a dead letter's message while it is held, and counted.
type load struct {
	msg  quorumq.NewMessage
	prio int16  // that it asks for
	size int    // of the body
	body []byte // nil: only Transfers on their way have it

	origin *tracing.Origin // nil: the message is not traced
}

// ready reports whether the dead letter can be sent.
func (l *deadLetter) ready() bool { return l.load != nil && l.load.body != nil }

// pendingTarget is a target that has not stored the dead letter yet.
type pendingTarget struct {
	uid    id.QueueUID
	flying bool // part of a Transfer that is not answered
}

// target is nil if the target has the dead letter, or was none.
func (l *deadLetter) target(uid id.QueueUID) *pendingTarget {
	for i := range l.pending {
		if l.pending[i].uid == uid {
			return &l.pending[i]
		}
	}
	return nil
}

func (l *deadLetter) flying() bool {
	return slices.ContainsFunc(l.pending, func(p pendingTarget) bool { return p.flying })
}

// targetQueue is one target's queue of dead letters; at most one Transfer is under way, so that
// dead letters arrive in the order of their discards (DL-29).
type targetQueue struct {
	uid      id.QueueUID
	queue    []*deadLetter // waiting, ascending by number
	inFlight []*deadLetter // under way
	recall   func()        // asks to take back those that were not sent
	failures int           // attempts in a row without success
	cause    Cause         // of the last failure
	retryAt  time.Time     // not before; zero: at once
}

// blocked reports whether the target queue waits for its next attempt.
func (n *targetQueue) blocked() bool { return !n.retryAt.IsZero() }

// find looks at the end first, where nearly all are added.
func (n *targetQueue) find(l *deadLetter) (int, bool) {
	if k := len(n.queue); k == 0 || n.queue[k-1].d.Seq < l.d.Seq {
		return k, false
	}
	return slices.BinarySearchFunc(n.queue, l.d.Seq, func(have *deadLetter, seq quorumq.Seq) int {
		return cmp.Compare(have.d.Seq, seq)
	})
}

// add keeps the order of the backlog; what is there already stays.
func (n *targetQueue) add(l *deadLetter) {
	if i, there := n.find(l); !there {
		n.queue = slices.Insert(n.queue, i, l)
	}
}

// remove does nothing if it is not there.
func (n *targetQueue) remove(l *deadLetter) {
	if i, there := n.find(l); there {
		n.queue = slices.Delete(n.queue, i, i+1)
	}
}

// removeFront removes the first k dead letters, which fly.
func (n *targetQueue) removeFront(k int) {
	rest := copy(n.queue, n.queue[k:])
	clear(n.queue[rest:])
	n.queue = n.queue[:rest]
}

// toRanges sorts numbers and joins them to ranges.
func toRanges(seqs []quorumq.Seq) []quorumq.SeqRange {
	slices.Sort(seqs)
	var out []quorumq.SeqRange
	for _, s := range seqs {
		if k := len(out); k > 0 && s <= out[k-1].Last+1 {
			out[k-1].Last = s
			continue
		}
		out = append(out, quorumq.SeqRange{First: s, Last: s})
	}
	return out
}
