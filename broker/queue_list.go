package broker

import (
	"context"
	"time"

	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/id"
)

// figures returns figures that are fresh enough.
func (b *Broker) figures() (*allFigures, error) {
	s := &b.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && time.Since(s.last.at) < figuresFreshFor {
		return s.last, nil
	}
	ctx, cancel := context.WithTimeout(b.life, figuresTimeout) // not the caller's: others wait for the same figures
	defer cancel()
	status, err := b.cluster.Status(ctx)
	if err != nil {
		return nil, err
	}
	var before *cluster.AllFigures
	if s.last != nil {
		before = s.last.led
	}
	b.losses.refresh(b.life)
	all, err := b.cluster.AllFigures(ctx, before)
	if err != nil {
		return nil, err
	}
	lost := b.losses.newest(b.life, figuresTimeout)
	s.last = &allFigures{at: time.Now(), led: all, alive: map[id.NodeID]bool{}, lost: lost, silent: id.Names(all.Silent)}
	for i := range status.Nodes {
		if n := &status.Nodes[i]; n.Alive && n.Refused == "" {
			s.last.alive[n.ID] = true
		}
	}
	return s.last, nil
}

// QueueList are the queues that a caller may see, sorted by vhost and name. It describes each when it is asked to, so
// that a page costs what it shows. It may be used by one goroutine.
type QueueList struct {
	// Silent are the nodes that did not answer: the figures of the queues that they lead are missing.
	Silent []string

	b       *Broker
	view    *catalog.View
	records []*catalog.QueueRecord
	figures *allFigures // nil: they were not asked for
}

// Queues lists the queues of a vhost that the caller may see, of all vhosts for "" (VH-12). Their figures may be a second
// old; they cost two questions to each node, however many queues there are.
func (b *Broker) Queues(ctx context.Context, vhost string, figures bool) (*QueueList, error) {
	sights, v, err := b.sights(ctx, vhost)
	if err != nil {
		return nil, err
	}
	l := &QueueList{b: b, view: v}
	for q := range v.Queues() {
		if seen, may := sights[q.VHost]; may && seen.Sees(permission.Queue(q.VHost, q.Name)) {
			l.records = append(l.records, q)
		}
	}
	if figures {
		if l.figures, err = b.figures(); err != nil {
			return nil, err
		}
		l.Silent = l.figures.silent
	}
	return l, ctx.Err()
}

// sights returns what the caller may see in a vhost, or in each that it may see anything of for "".
func (b *Broker) sights(ctx context.Context, vhost string) (map[string]permission.Sight, *catalog.View, error) {
	if vhost != "" {
		seen, v, err := b.listable(ctx, vhost)
		return map[string]permission.Sight{vhost: seen}, v, err
	}
	v, err := b.Serving.ViewOf("")
	if err != nil {
		return nil, nil, err
	}
	out := map[string]permission.Sight{}
	for h := range v.VHosts() {
		if seen, err := b.Permissions.Sight(ctx, h.Name); err == nil {
			out[h.Name] = seen
		}
	}
	return out, v, nil
}

// Len returns how many queues there are.
func (l *QueueList) Len() int { return len(l.records) }

// Name returns the name of queue i.
func (l *QueueList) Name(i int) string { return l.records[i].Name }

// Queue describes queue i. Its Raft figures are left out.
func (l *QueueList) Queue(i int) Queue {
	rec := l.records[i]
	q := l.b.describe(l.view, rec)
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
	q.Leader, q.Stats = string(f.Leader), queueStats(&f.Overview, l.b.now())
	q.Stats.DeadLetterConfirmed = f.Overview.Confirmed
	return q
}

// QueueBrief is what lists of queues are sorted by most.
type QueueBrief struct {
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
func (q *QueueBrief) Messages() uint64 { return q.Ready + q.Unsettled + q.Delayed + q.Backlog }

// Brief describes queue i in brief. It allocates nothing, so that a list of thousands can be sorted.
func (l *QueueList) Brief(i int) QueueBrief {
	rec := l.records[i]
	q := QueueBrief{UID: uint64(rec.UID), VHost: rec.VHost}
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
	q.Consumers, q.OldestAgeMs = o.Consumers, age(o, o.OldestReady, l.b.now())
	return q
}

// Policy returns the policy in force for queue i; "": none.
func (l *QueueList) Policy(i int) string {
	user, _ := l.b.policies.Queue(l.view, l.records[i])
	return policyName(user)
}

// state is the state of a queue with these figures, which may be nil.
func (l *QueueList) state(rec *catalog.QueueRecord, f *cluster.QueueFigures) string {
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
func (l *QueueList) Totals() (ready, unsettled, others uint64, consumers int) {
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

// LedStats are the figures of a queue from the node that leads it.
type LedStats struct {
	UID         uint64
	VHost, Name string
	Leader      string
	Stats       *QueueStats
}

// AllStats returns the figures of all queues that have a leader, in no order, when they were taken and the nodes that did
// not answer. It checks no permission: whoever shows them does.
func (b *Broker) AllStats() (all []LedStats, at time.Time, silent []string, err error) {
	f, err := b.figures()
	if err != nil {
		return nil, at, nil, err
	}
	v, now := b.cluster.View(), b.now()
	all = make([]LedStats, 0, len(f.led.Queues))
	for uid, q := range f.led.Queues {
		if r, there := v.QueueByUID(uid); there {
			all = append(all, LedStats{UID: uint64(uid), VHost: r.VHost, Name: r.Name, Leader: string(q.Leader), Stats: queueStats(&q.Overview, now)})
		}
	}
	return all, f.at, f.silent, nil
}
