package queues

import (
	"context"
	"slices"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/leader"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// addFigures asks the queue's leader. Without a leader it finds out which members run.
func (qs *Queues) addFigures(ctx context.Context, c *cluster.Cluster, rec *catalog.QueueRecord, q *Queue) {
	qs.losses.refresh(qs.life)
	s, err := c.Leaders().Figures(ctx, rec.UID)
	if err != nil && ctx.Err() != nil {
		return
	}
	lost := qs.losses.newest(ctx, lossesWait)[rec.UID]
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
	q.Stats = statsOf(&s.Overview, c.Now())
	want := qs.policies.QueueConfig(c.View(), rec)
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

// age returns the milliseconds from since to now, 0 if since is 0. The queue's own time is that of its newest command,
// and stands still while there are none; so age takes the later of the two.
func age(o *quorumq.Overview, since quorumq.Time, now time.Time) uint64 {
	if since == 0 {
		return 0
	}
	return uint64(max(max(o.Now, quorumq.Time(now.UnixMilli()))-since, 0))
}

// statsOf converts a queue's figures for clients. now is the time of the cluster, from which ages are computed.
func statsOf(o *quorumq.Overview, now time.Time) *Stats {
	s := &Stats{
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
