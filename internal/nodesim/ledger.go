package nodesim

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/id"
)

// queue is one whose declare was answered.
type queue struct {
	name     string
	uid      id.QueueUID
	answered time.Time
}

// fate is what a publisher knows of a message.
type fate uint8

const (
	unknown fate = iota
	confirmed
)

// ledger is what clients got as answers. mu guards all fields.
type ledger struct {
	mu      sync.Mutex
	queues  []queue
	fates   map[id.QueueUID]map[string]fate
	leaders map[string]string // node, by group and term
	first   *Violation
}

func newLedger() *ledger {
	return &ledger{fates: map[id.QueueUID]map[string]fate{}, leaders: map[string]string{}}
}

// broke records the first rule that does not hold.
func (l *ledger) broke(rule, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == nil {
		l.first = &Violation{Rule: rule, Text: fmt.Sprintf(format, args...)}
	}
}

// broken returns the rule that broke first; nil: none has.
func (l *ledger) broken() *Violation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}

// declare records a declare that was answered.
func (l *ledger) declare(name string, uid id.QueueUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queues = append(l.queues, queue{name: name, uid: uid, answered: time.Now()})
	l.fates[uid] = map[string]fate{}
}

// declared returns the queues that must be there.
func (l *ledger) declared() []queue {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.queues)
}

// send records a message before it is handed to a node.
func (l *ledger) send(q id.QueueUID, body string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fates[q][body] = unknown
}

// confirm records that a publisher got a confirm for its message.
func (l *ledger) confirm(q id.QueueUID, body string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fates[q][body] = confirmed
}

// count returns how many messages are confirmed.
func (l *ledger) count() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, fates := range l.fates {
		for _, f := range fates {
			if f == confirmed {
				n++
			}
		}
	}
	return n
}

// judge holds what a queue had against what publishers know. seen counts first deliveries of each body.
func (l *ledger) judge(q queue, seen map[string]int) {
	l.mu.Lock()
	fates := l.fates[q.uid]
	var lost []string
	for body, f := range fates {
		if _, is := seen[body]; f == confirmed && !is {
			lost = append(lost, body)
		}
	}
	l.mu.Unlock()
	slices.Sort(lost)
	if len(lost) > 0 {
		l.broke("PUB-7", "queue %s has lost %d confirmed messages of %d: the first is %q", q.name, len(lost), len(fates), lost[0])
	}
	for body, n := range seen {
		if _, sent := fates[body]; !sent {
			l.broke("PUB-5", "queue %s has %q, which was never published", q.name, body)
		}
		if n > 1 {
			l.broke("PUB-6", "queue %s has %q %d times", q.name, body, n)
		}
	}
}

// won notes who leads a group in a term: one node.
func (l *ledger) won(group, term, node string) {
	l.mu.Lock()
	at := group + " in term " + term
	other, known := l.leaders[at]
	l.leaders[at] = node
	l.mu.Unlock()
	if known && other != node {
		l.broke("one leader", "nodes %s and %s both lead group %s", other, node, at)
	}
}

// electionWon is what the replication engine logs when a member has its votes.
const electionWon = "raft: election won"

// elections is a handler of the nodes' logs that reads who was elected, and hands all on.
type elections struct {
	slog.Handler
	ledger      *ledger
	node, group string
}

// Enabled implements slog.Handler: what says who was elected is logged at the lowest level.
func (e elections) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (e elections) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == electionWon {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "term" {
				e.ledger.won(e.group, a.Value.String(), e.node)
			}
			return true
		})
	}
	if !e.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return e.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (e elections) WithAttrs(as []slog.Attr) slog.Handler {
	e.Handler = e.Handler.WithAttrs(as)
	for _, a := range as {
		switch a.Key {
		case "node":
			e.node = a.Value.String()
		case "group":
			e.group = a.Value.String()
		}
	}
	return e
}

// WithGroup implements slog.Handler.
func (e elections) WithGroup(name string) slog.Handler {
	e.Handler = e.Handler.WithGroup(name)
	return e
}
