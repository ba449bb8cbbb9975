package cluster

import (
	"iter"

	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/export"
	"github.com/quorate/quorate/cluster/forwarding"
	"github.com/quorate/quorate/cluster/liveness"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/deadletter"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/latency"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
	"github.com/quorate/quorate/wal"
)

// LedFigures yields, in no order, the figures of the queues that this node leads, and of hibernating queues that it
// led last or for whose last leader's node it stands in. It omits queues if this node is not connected to a majority
// of their members' nodes. It does not ask other members, so a leader that is cut off may yield old figures (ST-3
// does not hold for them).
func (c *Cluster) LedFigures() iter.Seq2[id.QueueUID, *quorumq.Overview] {
	return c.host.Figures()
}

// Positions yields the progress of the logs of this node's members of queues, in no order.
func (c *Cluster) Positions() iter.Seq2[id.QueueUID, raftfsm.Progress] { return c.host.Positions() }

// ConfirmTimes counts how long clients of this node have waited for confirms.
func (c *Cluster) ConfirmTimes() *latency.Histogram { return c.gateway.ConfirmTimes() }

// SyncTimes counts how long the log took to make batches durable.
func (c *Cluster) SyncTimes() *latency.Histogram { return c.storage.SyncTimes() }

// Exports returns the figures of the exports of this node's members of queues.
func (c *Cluster) Exports() export.Stats { return c.pace.Stats() }

// Members returns how many members of queues this node has open, and how many hibernate.
func (c *Cluster) Members() (open, hibernated int) {
	return c.host.Count()
}

// TransportStats returns the figures of the peer connections to the other nodes.
func (c *Cluster) TransportStats() transport.Stats { return c.mux.Stats() }

// LivenessStats returns the figures of what judges the other nodes.
func (c *Cluster) LivenessStats() liveness.Stats { return c.liveness.Stats() }

// LogStats returns the figures of the log that the queues share; false if each has its own.
func (c *Cluster) LogStats() (wal.Stats, bool) {
	if c.storage == nil {
		return wal.Stats{}, false
	}
	return c.storage.Stats(), true
}

// Caches is what is kept in memory to save reads, in bytes.
type Caches struct{ Bodies, Tail int64 }

// Caches returns what is kept, and what may be.
func (c *Cluster) Caches() (kept, limit Caches) {
	s, l := c.host.Bodies().Stats(), c.storage.Stats()
	return Caches{s.Bytes, l.TailBytes}, Caches{s.Limit, l.TailLimit}
}

// LimitCaches bounds what is kept from now on; what exceeds that is given up at once.
func (c *Cluster) LimitCaches(to Caches) {
	c.host.Bodies().Limit(to.Bodies)
	c.storage.LimitTail(to.Tail)
}

// AgeCaches gives up what has not been used since the call before.
func (c *Cluster) AgeCaches() {
	c.host.Bodies().Age()
	c.storage.AgeTail()
}

// DeadLetterFigures returns the figures of the dead letters of all queues that this node leads, with
// those of terms that are over.
func (c *Cluster) DeadLetterFigures() forwarding.Sums { return c.forwarders.Totals() }

// DeadLetterRouter reports where dead letters go by this node's view.
func (c *Cluster) DeadLetterRouter() deadletter.Router {
	return forwarding.Router{Catalog: c.catalog, Views: c.views, Policies: c.policies}
}

// RetryDeadLetters notifies the forwarders of this node that a queue may take letters again (DL-24).
func (c *Cluster) RetryDeadLetters(target id.QueueUID) { c.forwarders.Retry(target) }

// counters are this node's as gateway, and those of its dead letters, by the names under which nodes
// report them (ST-2).
func (c *Cluster) counters() map[string]uint64 {
	named, deadLetters := c.clients.Counters.Named(), c.forwarders.Totals()
	named["dead_letters_confirmed"], named["dead_letters_lost"] = deadLetters.Confirmed, deadLetters.Lost.Sum()
	named["policy_pattern_timeouts"] = c.policies.AllTimeouts()
	churn := c.clients.Churn()
	named["connections_opened"], named["connections_closed"] = churn.ConnectionsOpened, churn.ConnectionsClosed
	named["channels_opened"], named["channels_closed"] = churn.ChannelsOpened, churn.ChannelsClosed
	named["queues_created"], named["queues_deleted"] = c.catalog.QueueChurn()
	return named
}

// StoredBytes returns what the queues hold that this node leads of a vhost, or of those that a user has declared,
// however they hold it; 0 if nothing bounds it. It may be half a second old.
func (c *Cluster) StoredBytes(of clients.QuotaSubject) uint64 {
	v := c.View()
	if !limitsStored(v, of) {
		return 0
	}
	s := &c.stored
	s.mu.Lock()
	defer s.mu.Unlock()
	now := c.clock.Elapsed()
	if n, known := s.of[of]; known && now-s.at < storedFor {
		return n
	}
	s.of, s.at = storedSums(v, c.LedFigures()), now
	return s.of[of]
}
