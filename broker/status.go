package broker

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/names"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/forwarding"
	"github.com/quorate/quorate/cluster/leader"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/quorumq"
)

// The states of a queue (ST-1).
const (
	StateDeleting = "deleting" // its messages are dead-lettered before it is deleted, or it is sealed
	StateRunning  = "running"  // it has a leader
	StateMinority = "minority" // fewer than a majority of its members run
	StateDown     = "down"     // none of its members runs
)

// Queue is a queue with its figures.
type Queue struct {
	VHost, Name string
	UID         uint64
	Type        string
	Durable     bool
	Exclusive   bool
	AutoDelete  bool
	Arguments   message.Table
	// Policy and OperatorPolicy are the policies in force, "" for none. Effective has the arguments merged with both
	// policies (PO-3, PO-7).
	Policy, OperatorPolicy string
	Effective              message.Table
	EffectivePolicy        message.Table // of both policies alone
	// SettingsPending says that the queue's leader had other settings in force than the newest when it gave the figures
	// . It is false without figures.
	SettingsPending bool
	// DeclaredBy is the user that declared the queue, "" if there was no login or the user is not known.
	// CountsForDeclarer reports whether the queue counts towards the limits of this user (VH-17).
	DeclaredBy        string
	CountsForDeclarer bool
	State             string // one of the states; "" if figures were not asked for
	Leader            string
	Members           []string
	Online            []string
	Stats             *QueueStats // nil if not asked for, or if no leader could be reached
	Raft              *RaftStats
}

// QueueStats are the counts of a queue, exact on its leader at the time of reading (ST-1, ST-3).
type QueueStats struct {
	Ready, Returned, Unsettled, Backlog       uint64
	ReadyBytes, UnsettledBytes, BacklogBytes  uint64
	Delayed, DelayedBytes                     uint64
	NextDelayedAtMs                           int64 // when the first delayed message is due; 0: none (DR-3)
	Consumers                                 int
	ReadyByPriority                           [32]uint64
	OldestMessageAgeMs                        uint64 // of ready messages; 0: none
	Enqueued, Refused, Delivered, Redelivered uint64 // since the queue was created
	Settled, ReturnedTotal, Expired, Dropped  uint64
	DeliveryLimitHits, DedupHits              uint64
	DeadLettered                              map[string]uint64 // by reason; nil: none
	DeadLetterConfirmed                       uint64            // dead letters that all their targets have stored
	LastDeadLetterError                       string            // why the backlog waits; "": it does not

	ConsumersIdle                             int // consumers that would take a message now
	Gets, EmptyGets, ReturnedFailed, TimedOut uint64
	DeliveryLimit                             int64  // -1: none
	DelayedRetry                              string // which returned messages wait (DR-1)

	DeadLetters        forwarding.DeadLetters
	Discarded          []Discarded
	OldestBacklogAgeMs uint64 // since the oldest message of the backlog was discarded; 0: none
	Abandoned          uint64 // dead letters dropped when at-least-once was switched off (DL-27)
	AbandonedBytes     uint64
}

// Discarded counts the messages discarded for one reason, under one strategy that was in force then (DL-52).
type Discarded struct {
	Reason, Strategy string
	Count            uint64
}

// RaftStats are a queue's Raft figures on its leader.
type RaftStats struct {
	Term, CommitIndex, AppliedIndex, SnapshotIndex, LastIndex uint64
}

// GetQueue returns a queue with its figures, or without them if no leader can be reached in time.
func (b *Broker) GetQueue(ctx context.Context, vhost, name string) (Queue, error) {
	c := b.cluster
	rec, err := b.visibleQueue(ctx, vhost, name)
	if err != nil {
		return Queue{}, err
	}
	q := b.describe(c.View(), rec)
	b.addFigures(ctx, c, rec, &q)
	return q, ctx.Err()
}

// DescribeQueue is GetQueue without figures. It makes no call to another node.
func (b *Broker) DescribeQueue(ctx context.Context, vhost, name string) (Queue, error) {
	rec, err := b.visibleQueue(ctx, vhost, name)
	if err != nil {
		return Queue{}, err
	}
	return b.describe(b.view(), rec), nil
}

// visibleQueue looks up a queue that the caller may see (VH-12).
func (b *Broker) visibleQueue(ctx context.Context, vhost, name string) (*catalog.QueueRecord, error) {
	if err := b.permitSight(ctx, permission.Queue(vhost, name)); err != nil {
		return nil, err
	}
	if names.IsReply(name) { // AM-3
		return nil, serving.NoQueue(vhost, name)
	}
	return serving.LookUp(b.view(), vhost, name)
}

// describe returns a queue as the catalog has it, without figures. It makes no call.
func (b *Broker) describe(v *catalog.View, rec *catalog.QueueRecord) Queue {
	user, operator := b.policies.Queue(v, rec)
	_, counts := v.DeclarerOf(rec)
	return Queue{
		Policy: policyName(user), OperatorPolicy: policyName(operator), Effective: policy.Merge(rec.Arguments, user, operator),
		EffectivePolicy: policy.Merge(nil, user, operator),
		VHost:           rec.VHost, Name: rec.Name, UID: uint64(rec.UID), Type: string(rec.Type), Durable: rec.Durable,
		Exclusive: rec.Exclusive, AutoDelete: rec.AutoDelete,
		Arguments: rec.Arguments, Members: id.Names(rec.Members),
		DeclaredBy: rec.DeclaredBy, CountsForDeclarer: counts,
	}
}

// policyName returns the name of a policy, "" for nil.
func policyName(p *catalog.Policy) string {
	if p == nil {
		return ""
	}
	return p.Name
}

// addFigures asks the queue's leader. Without a leader it finds out which members run.
func (b *Broker) addFigures(ctx context.Context, c *cluster.Cluster, rec *catalog.QueueRecord, q *Queue) {
	b.losses.refresh(b.life)
	s, err := c.Leaders().Figures(ctx, rec.UID)
	if err != nil && ctx.Err() != nil {
		return
	}
	lost := b.losses.newest(ctx, lossesWait)[rec.UID]
	if err != nil {
		q.Online = runningMembers(ctx, c, without(rec.Members, lost))
		q.State = stateWithout(len(q.Online), len(q.Members))
		return
	}
	q.Leader, q.Online = string(s.Leader), id.Names(without(s.Online, lost))
	q.State = stateWith(rec, &s, len(q.Online))
	if len(s.Members) > 0 {
		q.Members = id.Names(s.Members)
	}
	q.Stats = queueStats(&s.Overview, c.Now())
	want := b.policies.QueueConfig(c.View(), rec)
	want.Rules = s.Overview.Config.Rules // rules are not settings
	q.SettingsPending = want.Normal() != s.Overview.Config
	q.Stats.DeadLetterConfirmed, q.Stats.LastDeadLetterError = s.Overview.Confirmed, s.BacklogTrouble
	q.Stats.DeadLetters = s.DeadLetters
	if g := s.Group; g != nil {
		q.Raft = &RaftStats{
			Term: g.GetTerm(), CommitIndex: g.GetCommitIndex(), AppliedIndex: g.GetAppliedIndex(),
			SnapshotIndex: g.GetSnapshotIndex(), LastIndex: g.GetLastIndex(),
		}
	}
}

// without returns those members that have not lost what they had stored.
func without(members, lost []id.NodeID) []id.NodeID {
	return slices.DeleteFunc(slices.Clone(members), func(n id.NodeID) bool { return slices.Contains(lost, n) })
}

// stateWith returns the state of a queue with figures, of whose members so many run. Those of one that hibernates do not show
// that it has a majority.
func stateWith(rec *catalog.QueueRecord, s *leader.Status, running int) string {
	switch {
	case rec.DrainDeleting > 0 || s.Overview.DrainDeleting:
		return StateDeleting
	case s.Hibernated:
		return stateWithout(running, len(s.Members))
	}
	return StateRunning
}

// stateWithout returns the state of a queue that gave no figures, by how many of its members run.
func stateWithout(running, members int) string {
	switch {
	case running == 0:
		return StateDown
	case running <= members/2:
		return StateMinority
	}
	return StateRunning // enough members run, so they will elect a leader
}

// runningMembers returns the members on nodes that are alive and not refused; nil if this node cannot get the state of
// the nodes.
func runningMembers(ctx context.Context, c *cluster.Cluster, members []id.NodeID) []string {
	s, err := c.Status(ctx)
	if err != nil {
		return nil
	}
	var out []string
	for _, m := range members {
		for i := range s.Nodes {
			if s.Nodes[i].ID == m && s.Nodes[i].Alive && s.Nodes[i].Refused == "" {
				out = append(out, string(m))
			}
		}
	}
	return out
}

// age returns the milliseconds from since to now, 0 if since is 0. The queue's own time is that of its newest
// command, and stands still without commands, so age takes the later of the two.
func age(o *quorumq.Overview, since quorumq.Time, now time.Time) uint64 {
	if since == 0 {
		return 0
	}
	return uint64(max(max(o.Now, quorumq.Time(now.UnixMilli()))-since, 0))
}

// queueStats converts a queue's figures for clients. now is the time of the cluster, from which ages are computed.
func queueStats(o *quorumq.Overview, now time.Time) *QueueStats {
	s := &QueueStats{
		Ready: o.Ready, Returned: o.Returned, Unsettled: o.Unsettled, Backlog: o.Backlog, Delayed: o.Delayed,
		DelayedBytes: o.DelayedBytes, NextDelayedAtMs: int64(o.NextDelayed),
		ReadyBytes: o.ReadyBytes, UnsettledBytes: o.UnsettledBytes, BacklogBytes: o.BacklogBytes,
		Consumers: o.Consumers, ReadyByPriority: o.ReadyByPriority,
		Enqueued: o.Enqueued, Refused: o.Refused, Delivered: o.Delivered, Redelivered: o.Redelivered,
		Settled: o.Settled, ReturnedTotal: o.ReturnedTotal, Expired: o.Expired, Dropped: o.Dropped,
		DeliveryLimitHits: o.DeliveryLimitHits, DedupHits: o.Dedup,
		Abandoned: o.Abandoned, AbandonedBytes: o.AbandonedBytes,
		ConsumersIdle: o.ConsumersIdle, Gets: o.Gets, EmptyGets: o.EmptyGets, ReturnedFailed: o.ReturnedFailed,
		TimedOut: o.ConsumerTimeouts, DeliveryLimit: o.Config.DeliveryLimit,
		DelayedRetry: [...]string{"disabled", "all", "failed", "returned"}[min(o.Config.Retry.Type, quorumq.RetryReturned)],
	}
	s.OldestMessageAgeMs, s.OldestBacklogAgeMs = age(o, o.OldestReady, now), age(o, o.OldestBacklog, now)
	s.Discarded = discardedOf(o)
	for r := quorumq.ReasonRejected; r <= quorumq.LastReason; r++ {
		if n := o.DeadLettered[r]; n > 0 {
			if s.DeadLettered == nil {
				s.DeadLettered = map[string]uint64{}
			}
			s.DeadLettered[r.String()] = n
		}
	}
	return s
}

// discardedOf lists the counts that are not 0, by strategy and reason.
func discardedOf(o *quorumq.Overview) (out []Discarded) {
	for mode := quorumq.DeadLetterDisabled; mode <= quorumq.LastDeadLetterMode; mode++ {
		for r := quorumq.ReasonRejected; r <= quorumq.LastReason; r++ {
			if n := o.Discarded[mode][r]; n > 0 {
				out = append(out, Discarded{Reason: r.String(), Strategy: mode.String(), Count: n})
			}
		}
	}
	return out
}

// Bounds of a page of queues.
const (
	DefaultPageSize = 100
	MaxPageSize     = 1000
	// maxStatusCalls limits how many leaders are asked at the same time for one page.
	maxStatusCalls = 16
)

// ListQueues returns a page of the queues that the caller may see (VH-12), sorted by vhost and name, and the token of
// the next page, "" on the last one. An empty vhost stands for all vhosts, and size 0 for DefaultPageSize.
func (b *Broker) ListQueues(ctx context.Context, vhost string, size int, token string, figures bool) ([]Queue, string, error) {
	c := b.cluster
	seen, v, err := b.listable(ctx, vhost)
	if err != nil {
		return nil, "", err
	}
	after, err := decodePage(token)
	if err != nil {
		return nil, "", err
	}
	if size <= 0 {
		size = DefaultPageSize
	}
	size = min(size, MaxPageSize)
	var page []*catalog.QueueRecord
	next := ""
	for q := range v.Queues() {
		if !after.before(q) || !seen.Sees(permission.Queue(q.VHost, q.Name)) {
			continue
		}
		if len(page) == size {
			next = encodePage(page[size-1])
			break
		}
		page = append(page, q)
	}
	return b.describePage(ctx, c, page, figures), next, ctx.Err()
}

// describePage asks the leaders of a page's queues at the same time, at most maxStatusCalls of them: a queue without a
// leader takes as long as the timeout.
func (b *Broker) describePage(ctx context.Context, c *cluster.Cluster, page []*catalog.QueueRecord, figures bool) []Queue {
	out := make([]Queue, len(page))
	for i, rec := range page {
		out[i] = b.describe(c.View(), rec)
	}
	if !figures {
		return out
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxStatusCalls)
	for i, rec := range page {
		slots <- struct{}{}
		wg.Go(func() {
			b.addFigures(ctx, c, rec, &out[i])
			<-slots
		})
	}
	wg.Wait()
	return out
}

// pageStart is the last queue of the previous page. The zero value comes before all queues.
type pageStart struct {
	set         bool
	vhost, name string
}

// before reports whether a queue comes after pageStart, in the order of vhost and name.
func (p pageStart) before(q *catalog.QueueRecord) bool {
	if !p.set {
		return true
	}
	if n := strings.Compare(p.vhost, q.VHost); n != 0 {
		return n < 0
	}
	return p.name < q.Name
}

// badPageToken refuses a page token that this package has not made.
func badPageToken(token string) error {
	return &failure.Error{
		Class: failure.PreconditionFailed, Kind: "page", Arg: "page_token", Value: token,
		Reason: "is not one that a page before gave; send next_page_token back unchanged, or leave it empty",
	}
}

func encodePage(q *catalog.QueueRecord) string {
	return base64.RawURLEncoding.EncodeToString([]byte(q.VHost + "\x00" + q.Name))
}

// decodePage is the inverse of encodePage; "" stands for the first page. A NUL separates vhost and name, because
// neither contains one.
func decodePage(token string) (pageStart, error) {
	if token == "" {
		return pageStart{}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	vhost, name, ok := strings.Cut(string(b), "\x00")
	if err != nil || !ok {
		return pageStart{}, badPageToken(token)
	}
	return pageStart{set: true, vhost: vhost, name: name}, nil
}
