package event

import (
	"log/slog"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
)

// JournalConfig configures a Journal.
type JournalConfig struct {
	Node   id.NodeID
	Logger *slog.Logger
	View   func() *catalog.View
	// NowMs and StartedMs return the time of the cluster, and when this node started in that time, in ms since the
	// Unix epoch: older commands are only replayed, and are no news.
	NowMs, StartedMs func() int64
}

// Journal is what happens on a node: events of the catalog, which every node has, numbered by the
// index of the command; those of the queues that the node leads and of itself; and its audit
// records. Its methods may be called concurrently, except those of the apply path.
type Journal struct {
	JournalConfig

	catalog *Log
	queues  *Log
	audit   AuditLog
	// entry has what the commands so far of a log entry have reported: their events have one number,
	// and are shown together. It belongs to the apply path.
	entry []Event
}

// NewJournal returns an empty journal.
func NewJournal(c JournalConfig) *Journal {
	return &Journal{JournalConfig: c, catalog: NewLog(0), queues: NewLog(0), audit: NewAuditLog()}
}

// Catalog returns the events of the catalog.
func (j *Journal) Catalog() *Log { return j.catalog }

// Queues returns the events of this node and of the queues that it leads.
func (j *Journal) Queues() *Log { return j.queues }

// Audit returns a list of audit records.
func (j *Journal) Audit(list AuditList) *Log { return j.audit[list] }

// Counts returns how many events of each kind there were since this node's start.
func (j *Journal) Counts() map[Kind]uint64 {
	out := j.catalog.Counts()
	for k, n := range j.queues.Counts() {
		out[k] += n
	}
	return out
}

// EmitQueue reports an event of a queue that this node leads. It does not wait.
func (j *Journal) EmitQueue(q id.QueueUID, e Event) {
	rec, ok := j.View().QueueByUID(q)
	if !ok {
		return
	}
	e.VHost, e.Name, e.Node, e.AtMs = rec.VHost, rec.Name, j.Node, j.NowMs()
	j.queues.Add(e)
	log := j.Logger.Info
	switch e.Kind {
	case LeaderChanged:
		log = j.Logger.Debug // there is one for every queue of a node that is lost
	case DegradedStrategy, DeadLetterBlocked, MessagesDropped:
		log = j.Logger.Warn
	default:
	}
	log("event", "kind", string(e.Kind), "vhost", e.VHost, "queue", e.Name, "cause", e.Cause, "detail", e.Detail, "count", e.Count)
}

// EmitNode reports an event of this node itself. It does not wait.
func (j *Journal) EmitNode(e Event) {
	e.Node, e.AtMs = j.Node, j.NowMs()
	j.queues.Add(e)
}

// Record keeps a record of who changed what for those who watch (AU-1), and stamps it. It does not
// wait.
func (j *Journal) Record(list AuditList, e Event) {
	e.Kind, e.Node, e.AtMs = Audit, j.Node, j.NowMs()
	j.audit[list].Add(e)
}

// Applied records a catalog command that was carried out, on the apply path.
func (j *Journal) Applied(cmd catalog.Command, r catalog.Reply, before *catalog.View, nowMs int64) {
	if r.Err != nil || nowMs < j.StartedMs() {
		return
	}
	e, ok := eventOf(cmd, r, before)
	if !ok {
		return
	}
	e.Seq, e.Node, e.AtMs = r.Index, j.Node, nowMs
	j.entry = append(j.entry, e)
	j.Logger.Debug("event", "kind", string(e.Kind), "vhost", e.VHost, "name", e.Name, "detail", e.Detail)
}

// EntryDone reports what the commands of an entry have changed, on the apply path.
func (j *Journal) EntryDone() {
	if len(j.entry) == 0 {
		return
	}
	j.catalog.Add(j.entry...)
	j.entry = j.entry[:0]
}

// Restored reports that commands were passed over: their outcome came as a snapshot.
func (j *Journal) Restored(from, to uint64) {
	if from == 0 || to <= from {
		return
	}
	j.catalog.Add(Event{Seq: to, Kind: Missed, Node: j.Node, AtMs: j.NowMs(), Count: to - from})
}

// eventOf returns what a command has changed, if that is reported.
func eventOf(cmd catalog.Command, r catalog.Reply, before *catalog.View) (Event, bool) {
	made := func(created, changed Kind, vhost, name string) (Event, bool) {
		if r.Created {
			return Event{Kind: created, VHost: vhost, Name: name}, true
		}
		return Event{Kind: changed, VHost: vhost, Name: name}, changed != ""
	}
	gone := func(k Kind, vhost, name string) (Event, bool) {
		return Event{Kind: k, VHost: vhost, Name: name}, r.Deleted
	}
	switch c := cmd.(type) {
	case *catalog.DeclareQueue:
		return made(QueueCreated, "", c.VHost, c.Name)
	case *catalog.DeleteQueue:
		return gone(QueueDeleted, c.VHost, c.Name)
	case *catalog.DrainDeleteQueue:
		return ofDrainDelete(r.UID, before)
	case *catalog.SetQueueMembers:
		return ofQueue(QueueChanged, c.UID, before, "")
	case *catalog.CompleteMemberStep:
		return ofChange(c, before)
	case *catalog.DeclareExchange:
		return made(ExchangeCreated, "", c.VHost, c.Name)
	case *catalog.DeleteExchange:
		return gone(ExchangeDeleted, c.VHost, c.Name)
	case *catalog.Bind:
		return made(BindingCreated, "", c.VHost, bindingText(c.Source, c.Destination, c.Key))
	case *catalog.Unbind:
		return gone(BindingDeleted, c.VHost, bindingText(c.Source, c.Destination, c.Key))
	case *catalog.PutPolicy:
		return made(PolicyCreated, PolicyChanged, c.VHost, c.Name)
	case *catalog.DeletePolicy:
		return gone(PolicyDeleted, c.VHost, c.Name)
	case *catalog.PutVHost:
		return made(VHostCreated, VHostChanged, c.Name, c.Name)
	case *catalog.DeleteVHost:
		return gone(VHostDeleted, c.Name, c.Name)
	}
	return Event{}, false
}

func bindingText(source, destination, key string) string {
	return source + " " + destination + " " + key
}

// ofQueue takes the name from the view before the change: afterwards the queue may be gone.
func ofQueue(k Kind, uid id.QueueUID, before *catalog.View, detail string) (Event, bool) {
	q, ok := before.QueueByUID(uid)
	if !ok {
		return Event{}, false
	}
	return Event{Kind: k, VHost: q.VHost, Name: q.Name, Detail: detail}, true
}

// ofDrainDelete reports that a queue began to go, not of a repeat.
func ofDrainDelete(uid id.QueueUID, before *catalog.View) (Event, bool) {
	if q, ok := before.QueueByUID(uid); !ok || q.DrainDeleting > 0 {
		return Event{}, false
	}
	return ofQueue(QueueDeleting, uid, before, "")
}

// ofChange reports members that came and went.
func ofChange(c *catalog.CompleteMemberStep, before *catalog.View) (Event, bool) {
	q, ok := before.QueueByUID(c.UID)
	if !ok || q.Change == nil {
		return Event{}, false
	}
	switch c.Step {
	case catalog.StepJoined:
		return ofQueue(MemberAdded, c.UID, before, string(q.Change.Join))
	case catalog.StepLeft:
		return ofQueue(MemberRemoved, c.UID, before, string(q.Change.Leave))
	case catalog.StepNone, catalog.StepCancelled:
	}
	return Event{}, false
}
