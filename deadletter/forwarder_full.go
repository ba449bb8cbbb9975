package deadletter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// maxCycle limits the queues in which a way back to the source is looked for.
const maxCycle = 16

// refusal returns why a target refuses dead letters, and what helps (DL-26).
func (r *forwarding) refusal(n *targetQueue, reply *quorumq.Reply, name string) (Cause, string) {
	if reply.Count > 0 {
		return CauseRanges, fmt.Sprintf("queue %q remembers %d ranges of dead letters of this queue, as many as it may, and can forget none "+
			"before number %d of the backlog has left; explain shows what that one lacks", name, quorumq.MaxSourceRanges, r.settled+1)
	}
	text := fmt.Sprintf("queue %q is full: its length limit refuses dead letters", name)
	if way := r.cycle(n.uid, &n.queue[0].d); way != nil {
		text += fmt.Sprintf("; its own may come back here (%s): if each of these queues is full of them, none gets room until you raise the limit of one or route its dead letters elsewhere",
			strings.Join(way, " → "))
	}
	return CauseFull, text
}

// stop is a queue on the way of a message that consumers reject, and the message as it arrives there.
type stop struct {
	uid  id.QueueUID
	msg  message.Message
	from *stop // nil: the source
}

// cycle returns the names of the queues through which a rejected message goes from the source to a target and comes
// back, the source first and last; nil if it does not come back. Dead letters count in their queue until the next one has
// room for them: if these queues are full of them, they wait for one another.
func (r *forwarding) cycle(target id.QueueUID, d *quorumq.Discarded) []string {
	if target == r.src.UID() {
		return r.names(nil)
	}
	way := r.resolver.route(d)
	if way.cause != CauseNone {
		return nil
	}
	stops := []*stop{{uid: target, msg: way.msg}}
	for i := 0; i < len(stops); i++ {
		at := stops[i]
		rec, ok := r.view.QueueByUID(at.uid)
		if !ok {
			continue
		}
		e := Explain(r.view, r.router, rec, &at.msg, quorumq.Discarded{Reason: quorumq.ReasonRejected, At: d.At, Body: d.Body})
		if slices.Contains(e.Targets, r.src.UID()) {
			return r.names(at)
		}
		for _, uid := range e.Targets {
			if known := slices.ContainsFunc(stops, func(s *stop) bool { return s.uid == uid }); !known && len(stops) < maxCycle {
				stops = append(stops, &stop{uid: uid, msg: e.Message, from: at})
			}
		}
	}
	return nil
}

// names returns the names of the source, of the queues up to the last one, and of the source again.
func (r *forwarding) names(last *stop) []string {
	way := []string{nameOf(r.view, r.src.UID())}
	for ; last != nil; last = last.from {
		way = append(way, nameOf(r.view, last.uid))
	}
	way = append(way, way[0])
	slices.Reverse(way)
	return way
}
