package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/internal/latency"
)

// Position is the progress of the log of a member of a queue.
type Position struct{ Term, Commit, Last, Snapshot uint64 }

// engine are the figures of the members of queues and of the log that is theirs together.
type engine struct {
	totals         totals[Position]
	confirm, sync  *prometheus.Desc
	written, snaps *prometheus.Desc // RabbitMQ's, which are positions
	latency        *prometheus.Desc // RabbitMQ's

	mu   sync.Mutex
	seen latency.Counts // of confirms, at the last scrape
	mean float64        // of those between two scrapes, in seconds
}

// newEngine returns figures that have counted nothing.
func newEngine() engine {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	return engine{
		totals:  newTotals(positionRows()),
		confirm: desc("quorate_confirm_seconds", "Time from the hand-over of a message to a queue until the queue's answer, for messages that came to this node; a message to several queues counts for each, and dead letters count as well."),
		sync:    desc("quorate_log_sync_seconds", "Time to make a batch of the log durable."),
		written: desc("rabbitmq_raft_last_written_index", "Log entries committed, and those that are not yet."),
		snaps:   desc("rabbitmq_raft_snapshot_index", "Those of rabbitmq_raft_last_written_index that snapshots contain."),
		latency: desc("rabbitmq_raft_commit_latency_seconds", "Mean time from a message's arrival to its confirm, of the newest confirms."),
	}
}

// The first two of positionRows are sums of counters, the others are how far the log is ahead of a position.
const (
	rowCommits = iota
	rowTerms
	rowUncommitted
	rowEntries
)

// positionRows are added up over the members: there are too many for a series each.
func positionRows() []row[Position] {
	return []row[Position]{
		rowCommits: {
			"quorate_raft_commits_total", "rabbitmq_raft_commit_index", "Log entries that members on this node saw committed.", counter, nil, false,
			func(p Position) float64 { return float64(p.Commit) },
		},
		rowTerms: {
			"quorate_raft_terms_total", "rabbitmq_raft_term", "Terms that members on this node saw begin, each with an election.", counter, nil, false,
			func(p Position) float64 { return float64(p.Term) },
		},
		rowUncommitted: {
			"quorate_raft_uncommitted_entries", "", "Log entries of members on this node that are not committed yet.", gauge, nil, false,
			func(p Position) float64 { return float64(p.Last - min(p.Commit, p.Last)) },
		},
		rowEntries: {
			"quorate_raft_log_entries", "", "Log entries of members on this node since their last snapshots.", gauge, nil, false,
			func(p Position) float64 { return float64(p.Last - min(p.Snapshot, p.Last)) },
		},
	}
}

// collectEngine shows the figures. RabbitMQ's positions are made of those here, so that they grow as fast and have the
// same distances from one another.
func (m *Metrics) collectEngine(ch chan<- prometheus.Metric) {
	e := &m.engine
	_, sums := e.totals.collect(ch, m.src.Positions())
	written := sums[rowCommits] + sums[rowUncommitted]
	ch <- prometheus.MustNewConstMetric(e.written, gauge, written)
	ch <- prometheus.MustNewConstMetric(e.snaps, gauge, written-sums[rowEntries])
	confirms, mean := e.meanSince(m.src.Confirms)
	syncs := m.src.Syncs.Counts()
	histogram(ch, e.confirm, &confirms)
	histogram(ch, e.sync, &syncs)
	ch <- prometheus.MustNewConstMetric(e.latency, gauge, mean)
}

// meanSince counts confirms, and returns how long those since the scrape before took; while there are none, how long the
// last ones took.
func (e *engine) meanSince(of *latency.Histogram) (confirms latency.Counts, mean float64) {
	e.mu.Lock() // before it counts: scrapes are in order
	defer e.mu.Unlock()
	confirms = of.Counts()
	since := confirms.Since(&e.seen)
	e.seen = confirms
	if _, n, seconds := since.Doublings(); n > 0 {
		e.mean = seconds / float64(n)
	}
	return confirms, e.mean
}

// histogram shows how long things took.
func histogram(ch chan<- prometheus.Metric, d *prometheus.Desc, c *latency.Counts) {
	upTo, all, seconds := c.Doublings()
	ch <- prometheus.MustNewConstHistogram(d, all, seconds, upTo)
}
