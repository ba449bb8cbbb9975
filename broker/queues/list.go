package queues

import (
	"context"

	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/policy"
)

// List are the queues that a caller may see, sorted by vhost and name. It describes each when it is asked to, so
// that a page costs what it shows. It may be used by one goroutine.
type List struct {
	// Silent are the nodes that did not answer: the figures of the queues that they lead are missing.
	Silent []string

	qs      *Queues
	view    *catalog.View
	records []*catalog.QueueRecord
	figures *allFigures // nil: they were not asked for
}

// List lists the queues of a vhost that the caller may see, of all vhosts for "" (VH-12). Their figures may be a second
// old; they cost two questions to each node, however many queues there are.
func (qs *Queues) List(ctx context.Context, vhost string, figures bool) (*List, error) {
	sights, v, err := qs.sights(ctx, vhost)
	if err != nil {
		return nil, err
	}
	l := &List{qs: qs, view: v}
	for q := range v.Queues() {
		if seen, may := sights[q.VHost]; may && seen.Sees(permission.Queue(q.VHost, q.Name)) {
			l.records = append(l.records, q)
		}
	}
	if figures {
		if l.figures, err = qs.figures(); err != nil {
			return nil, err
		}
		l.Silent = l.figures.silent
	}
	return l, ctx.Err()
}

// sights returns what the caller may see in a vhost, or in each that it may see anything of for "".
func (qs *Queues) sights(ctx context.Context, vhost string) (map[string]permission.Sight, *catalog.View, error) {
	if vhost != "" {
		seen, v, err := qs.Listable(ctx, vhost)
		return map[string]permission.Sight{vhost: seen}, v, err
	}
	v, err := qs.serving.ViewOf("")
	if err != nil {
		return nil, nil, err
	}
	out := map[string]permission.Sight{}
	for h := range v.VHosts() {
		if seen, err := qs.permissions.Sight(ctx, h.Name); err == nil {
			out[h.Name] = seen
		}
	}
	return out, v, nil
}

// Len returns how many queues there are.
func (l *List) Len() int { return len(l.records) }

// Name returns the name of queue i.
func (l *List) Name(i int) string { return l.records[i].Name }

// Queue describes queue i. Its Raft figures are left out.
func (l *List) Queue(i int) Queue {
	rec := l.records[i]
	q := l.qs.describe(l.view, rec)
	if l.figures == nil {
		return q
	}
	for _, m := range rec.Members {
		if l.figures.online(rec.UID, m) {
			q.Online = append(q.Online, string(m))
		}
	}
	f := l.figures.led.Queues[rec.UID]
	if q.State = l.state(rec, f); f == nil {
		return q
	}
	q.Leader, q.Stats = string(f.Leader), statsOf(&f.Overview, l.qs.now())
	q.Stats.DeadLetterConfirmed = f.Overview.Confirmed
	return q
}

// Brief is what lists of queues are sorted by most.
type Brief struct {
	UID           uint64
	VHost         string
	State, Leader string // as those of Queue
	Known         bool   // whether there are figures; if not, the rest is zero
	Ready         uint64
	Unsettled     uint64
	Delayed       uint64
	Backlog       uint64
	Bytes         uint64 // of all messages
	Consumers     int
	OldestAgeMs   uint64 // of ready messages; 0: none
}

// Messages counts those of a queue.
func (q *Brief) Messages() uint64 { return q.Ready + q.Unsettled + q.Delayed + q.Backlog }

// Brief describes queue i in brief. It allocates nothing, so that a list of thousands can be sorted.
func (l *List) Brief(i int) Brief {
	rec := l.records[i]
	q := Brief{UID: uint64(rec.UID), VHost: rec.VHost}
	if l.figures == nil {
		return q
	}
	f := l.figures.led.Queues[rec.UID]
	q.State = l.state(rec, f)
	if f == nil {
		return q
	}
	o := &f.Overview
	q.Leader, q.Known = string(f.Leader), true
	q.Ready, q.Unsettled, q.Delayed, q.Backlog = o.Ready, o.Unsettled, o.Delayed, o.Backlog
	q.Bytes = o.ReadyBytes + o.UnsettledBytes + o.DelayedBytes + o.BacklogBytes
	q.Consumers, q.OldestAgeMs = o.Consumers, age(o, o.OldestReady, l.qs.now())
	return q
}

// Policy returns the policy in force for queue i; "": none.
func (l *List) Policy(i int) string {
	user, _ := l.qs.policies.Queue(l.view, l.records[i])
	return policy.NameOf(user)
}

// state is the state of a queue with these figures; nil: there are none.
func (l *List) state(rec *catalog.QueueRecord, f *cluster.QueueFigures) string {
	switch {
	case f != nil && (rec.DrainDeleting > 0 || f.Overview.DrainDeleting):
		return StateDeleting
	case f != nil:
		return StateRunning
	}
	running := 0
	for _, m := range rec.Members {
		if l.figures.online(rec.UID, m) {
			running++
		}
	}
	return stateWithout(running, len(rec.Members))
}

// Totals adds up the messages of all queues in the list, and their consumers.
func (l *List) Totals() (ready, unsettled, others uint64, consumers int) {
	if l.figures == nil {
		return 0, 0, 0, 0
	}
	for _, rec := range l.records {
		if f := l.figures.led.Queues[rec.UID]; f != nil {
			o := &f.Overview
			ready, unsettled, others = ready+o.Ready, unsettled+o.Unsettled, others+o.Delayed+o.Backlog
			consumers += o.Consumers
		}
	}
	return ready, unsettled, others, consumers
}
