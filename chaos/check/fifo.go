package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// The messages of a queue are looked at in windows, each half of which is in the next one too:
// what is wrong further apart is found by others, or in the windows in between.
const fifoWindow = 512

// fifoOperation is that the message at a place of the order of deliveries came, or was taken.
type fifoOperation struct {
	p     place
	place int
	taken bool
}

// fifoState counts what came and what was taken. Every message was taken, and in a known order, so
// the queue is a FIFO exactly if they came in the same order.
type fifoState struct{ came, taken int }

// fifoModel returns the model of a queue whose order of deliveries is known.
func fifoModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return fifoState{} },
		Step: func(state, input, _ any) (bool, any) {
			s, _ := state.(fifoState)
			op, _ := input.(fifoOperation)
			if op.taken {
				ok := s.taken == op.place && s.taken < s.came
				s.taken++
				return ok, s
			}
			ok := s.came == op.place
			s.came++
			return ok, s
		},
	}
}

// inTime: a queue with one consumer at a time is a linearizable FIFO: what was confirmed before
// another message was published, by whomever, is delivered before it. Looked at are messages that
// were delivered as new, which is enough: a FIFO without some of its messages is one.
func inTime(l *ledger) Guarantee {
	g := Guarantee{Name: "queues are linearizable", Rule: "G5, PUB-6"}
	for _, q := range l.ordered() {
		line, single := l.firstDeliveries(q)
		if !single {
			continue
		}
		for from := 0; from < len(line); from += fifoWindow / 2 {
			window := line[from:min(from+fifoWindow, len(line))]
			result, _ := linearizable(fifoModel(), l.fifoOperations(window), linearTime)
			switch result {
			case porcupine.Ok:
				g.Checked += min(len(window), fifoWindow/2)
			case porcupine.Illegal:
				g.Checked += min(len(window), fifoWindow/2)
				g.Broken = append(g.Broken, l.outOfTime(window)...)
			case porcupine.Unknown:
				g.Missing = fmt.Sprintf("%s was not decided within %v", q, linearTime)
			}
			if len(window) < fifoWindow || result == porcupine.Unknown {
				break
			}
		}
	}
	g.Broken = slices.CompactFunc(g.Broken, func(a, b Finding) bool {
		return a.At == b.At && a.Queue == b.Queue && a.Message == b.Message && a.Why == b.Why
	})
	return g
}

// ordered returns the queues that keep the order of their messages, in order of their names.
func (l *ledger) ordered() []string {
	var out []string
	for name, q := range l.queues {
		if q.Ordered && !q.Moved && !l.deleted[name] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// firstDeliveries returns the messages that a queue delivered as new, in this order, by the index of
// the event. single: by one consumer at a time, none of which came back after another one.
func (l *ledger) firstDeliveries(queue string) (line []int, single bool) {
	var now string
	was := map[string]bool{}
	for _, i := range l.asNewOf[queue] {
		e := &l.events[i]
		if e.Consumer != now {
			if was[e.Consumer] {
				return nil, false
			}
			now, was[e.Consumer] = e.Consumer, true
		}
		if f := l.fates[place{queue, e.Message()}]; f.expected && f.published >= 0 && f.published < i {
			line = append(line, i)
		}
	}
	return line, true
}

// fifoOperations returns what publishers and consumer did with messages that were delivered in this
// order. A message is taken after the one before: that its assignment may be older changes nothing
// about the order.
func (l *ledger) fifoOperations(line []int) []porcupine.Operation {
	out := make([]porcupine.Operation, 0, 2*len(line))
	for n, i := range line {
		e := &l.events[i]
		p := place{e.Queue, e.Message()}
		came, taken := l.came(p, i), porcupine.Operation{Input: fifoOperation{p, n, true}, Return: int64(e.At)}
		came.Input = fifoOperation{p, n, false}
		if n > 0 {
			taken.Call = int64(l.events[line[n-1]].At)
		}
		taken.Call = max(taken.Call, came.Call)
		out = append(out, came, taken)
	}
	return out
}

// came returns when a message was published and when it was certainly there: once it was confirmed
// or, by then, delivered.
func (l *ledger) came(p place, delivery int) porcupine.Operation {
	f := l.fates[p]
	there := l.events[delivery].At
	if f.confirmed >= 0 {
		there = min(there, l.events[f.confirmed].At)
	}
	return porcupine.Operation{ClientId: p.Publisher, Call: int64(l.events[f.published].At), Return: int64(there)}
}

// outOfTime names the messages of a window that were delivered after one that was published only
// when they had been confirmed.
func (l *ledger) outOfTime(line []int) []Finding {
	var out []Finding
	newest := -1 // delivery of the message that was published last, of those so far
	var published int64
	for _, i := range line {
		p := place{l.events[i].Queue, l.events[i].Message()}
		op := l.came(p, i)
		if newest >= 0 && op.Return < published {
			out = append(out, l.finding(p, i, "delivered after %s, which was published %v after this one was there", l.events[newest].Message(), time.Duration(published-op.Return)))
		}
		if op.Call > published {
			newest, published = i, op.Call
		}
	}
	return out
}
