package serve

import (
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/cluster/vitals"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/tlsfiles"
	"github.com/quorate/quorate/metrics"
	"github.com/quorate/quorate/quorumq"
)

// operations serves listen.http: health from the first moment, metrics once the node has started.
func (n *node) operations() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/health/", n.health.handler())
	mux.HandleFunc("GET /metrics", n.shown((*metrics.Metrics).Node))
	mux.HandleFunc("GET /metrics/detailed", n.withToken(n.shown((*metrics.Metrics).Detailed)))
	mux.HandleFunc("GET /metrics/queues", n.withToken(n.shown((*metrics.Metrics).Queues)))
	return mux
}

// shown serves a part of the metrics.
func (n *node) shown(part func(*metrics.Metrics) http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		m := n.metrics.Load()
		if m == nil {
			http.Error(w, "the node has not started yet", http.StatusServiceUnavailable)
			return
		}
		part(m).ServeHTTP(w, r)
	}
}

// showMetrics makes the metrics available. All listeners exist by then.
func (n *node) showMetrics() {
	n.metrics.Store(metrics.New(metrics.Sources{
		Node: n.cfg.NodeID, Cluster: n.cfg.Cluster.Name, Version: n.version, Logger: n.log,
		Queues: n.ledQueues, Gateway: n.gatewayFigures, Listener: n.listenerFigures, Incoming: n.incomingFigures, Outgoing: n.outgoingFigures,
		Tracing: func() metrics.Tracing { return metrics.Tracing(n.tracer.Stats()) },
		Pace:    func() metrics.Pace { return metrics.Pace(n.api.Pace()) },
		Exports: n.exportFigures,
		Memory:  n.memoryFigures, Links: n.linkFigures, Clock: n.clockFigures, Log: n.part.LogStats, Members: n.part.Members,
		Positions: n.positions, Confirms: n.part.ConfirmTimes(), Syncs: n.part.SyncTimes(),
		LeadersSpread: n.part.Reconciler().LeadersSpread, Replaced: n.part.Operator().NodesReplaced, Refused: n.part.RefusedPeers,
		CertificateEnds: n.certificateEnds, Logins: n.loginFigures, IssuerKeys: n.keyFigures, Gates: n.gates.figures,
		Versions: func() (finalised, reads int) { return int(n.part.View().Version()), int(catalog.NewestVersion) },
	}))
}

// ledQueues yields the queues that this node leads. The figures share one buffer, so they hold
// until the next step only.
func (n *node) ledQueues() iter.Seq[metrics.Queue] {
	now := quorumq.Time(n.part.Now().UnixMilli())
	return func(yield func(metrics.Queue) bool) {
		var figures quorumq.Overview
		for q := range n.broker.LedQueues() {
			figures = *q.Figures
			figures.Now = max(figures.Now, now)
			if !yield(metrics.Queue{UID: q.UID, VHost: q.VHost, Name: q.Name, Figures: &figures}) {
				return
			}
		}
	}
}

// positions yields the progress of the logs of this node's members.
func (n *node) positions() iter.Seq2[uint64, metrics.Position] {
	return func(yield func(uint64, metrics.Position) bool) {
		for uid, p := range n.part.Positions() {
			if !yield(uint64(uid), metrics.Position(p)) {
				return
			}
		}
	}
}

// gatewayFigures gathers the counters of this node as gateway. An unknown age of the view is -1.
func (n *node) gatewayFigures() metrics.Gateway {
	c, d := n.broker.Counters(), n.broker.DeadLetterCauses()
	buffered, stopped := n.broker.Buffers.Held()
	age, known := n.part.Catalog().ViewAge()
	if !known {
		age = -1
	}
	quotas, quotaWaiting := n.quotaFigures()
	held, holding := n.part.Gateway().Held()
	return metrics.Gateway{
		Quotas: quotas, QuotaWaiting: quotaWaiting,
		Limited:     metrics.Limited{Held: held, Holding: holding, Refusals: c.Refusals},
		Undecidable: c.Undecidable, Serves: n.part.Catalog().Serves(), ViewAge: age,
		Published: c.Published, Confirmed: c.Confirmed, Rejected: c.Rejected, Invalid: c.Invalid,
		UnroutableReturned: c.UnroutableReturned, UnroutableDropped: c.UnroutableDropped,
		LoginsRefused: c.LoginsRefused, LoginsUnseen: c.LoginsUnseen, Alarms: c.Alarms, Alarm: n.broker.Alarms.Now() != nil,
		UnknownArguments: c.UnknownArguments, DefinitionsWaiting: n.broker.Definitions.Waiting(), Buffered: buffered, Stopped: stopped,
		DeadLetterConfirmed: c.DeadLetterConfirmed,
		Consumed:            c.Consumed, ConsumedAutoAck: c.ConsumedAutoAck, Got: c.Got, GotAutoAck: c.GotAutoAck,
		ChannelsOpened: c.Churn.ChannelsOpened, ChannelsClosed: c.Churn.ChannelsClosed,
		QueuesDeclared: c.QueuesDeclared, QueuesCreated: c.QueuesCreated, QueuesDeleted: c.QueuesDeleted,
		Audit:   n.auditFigures(),
		Waiting: d.Waiting, Retries: d.Retries, Lost: d.Lost, Blocked: d.Blocked,
	}
}

// quotaFigures converts the counts of quotas, and returns how many publishes wait for one.
func (n *node) quotaFigures() ([]metrics.QuotaCount, int64) {
	counts, waiting := n.broker.Limits.Counts()
	out := make([]metrics.QuotaCount, len(counts))
	for i, c := range counts {
		out[i] = metrics.QuotaCount(c)
	}
	return out, waiting
}

// auditFigures converts the counts of audit records.
func (n *node) auditFigures() []metrics.AuditCount {
	counts := n.broker.Audit.Counts()
	out := make([]metrics.AuditCount, len(counts))
	for i, c := range counts {
		out[i] = metrics.AuditCount(c)
	}
	return out
}

// memoryFigures returns what is in use and what the plan allows, in bytes.
func (n *node) memoryFigures() metrics.Memory {
	kept, limit := n.part.Caches()
	plan := n.memory.Load()
	return metrics.Memory{
		Used: vitals.MemoryInUse(), Limit: plan.limit, High: plan.high,
		Bodies: kept.Bodies, BodiesLimit: limit.Bodies, Tail: kept.Tail, TailLimit: limit.Tail,
	}
}

// warning returns what an operator should check although the node serves; "": nothing.
func (n *node) warning() string {
	if a := n.broker.Alarms.Now(); a != nil {
		return a.Reason
	}
	return strings.Trim(n.part.Warning()+"; "+n.broker.Definitions.Warning(), "; ")
}

// linkFigures are the figures of all links.
func (n *node) linkFigures() metrics.Links {
	links := sumLinks(n.part.TransportStats(), n.part.View().Nodes(), id.NodeID(n.cfg.NodeID))
	links.Unsteady = n.part.LivenessStats().Unsteady
	return links
}

// sumLinks sums the figures of all links. The first connect of a link is no reconnect. Down are the other nodes of the cluster
// without a link: one that it has forgotten is missed by nobody, though the transport tries to connect to it while it runs.
func sumLinks(s transport.Stats, registered iter.Seq[*catalog.Node], own id.NodeID) metrics.Links {
	links, up := metrics.Links{Refused: s.Refused, Starved: s.Starved, Detours: s.Detours, Stuck: s.Stuck}, map[id.NodeID]bool{}
	links.Reconnects, links.Failures = s.Former.Reconnects, s.Former.Failures
	for _, p := range s.Peers {
		if up[p.Node] = p.Up; p.Up {
			links.Up++
			if p.Through != "" {
				links.Around++
			}
		}
		links.QueueBytes += p.RaftQueueBytes + p.QueueBytes
		links.Reconnects += max(p.Connects, 1) - 1
		links.Failures += p.Failures
	}
	for r := range registered {
		if r.ID != own && !up[r.ID] {
			links.Down++
		}
	}
	return links
}

// clockFigures returns how far each node's wall clock is from the clock of the cluster (TTL-8).
func (n *node) clockFigures() metrics.Clock {
	f := n.part.ClockFigures()
	own := f.Nodes[id.NodeID(n.cfg.NodeID)]
	out := metrics.Clock{
		Steps: f.Steps, Jumps: f.Jumps, Confirmed: f.Confirmed, Limit: f.Limit, Error: own.Offset,
		QueueAhead: f.QueueAhead, Offsets: make(map[string]time.Duration, len(f.Nodes)),
	}
	for node, s := range f.Nodes {
		out.Offsets[string(node)] = s.Offset
	}
	return out
}

// certificateEnds returns until when the certificates in force are valid, by listener.
func (n *node) certificateEnds() map[string]time.Time {
	ends := map[string]time.Time{}
	for listener, files := range map[string]*tlsfiles.Files{"client": n.clientTLS, "peer": n.peerTLS} {
		if files != nil {
			certificate, _ := files.Current()
			ends[listener] = certificate.Leaf.NotAfter
		}
	}
	return ends
}

// incomingFigures are the figures of incomplete messages, by protocol.
func (n *node) incomingFigures() metrics.Incoming {
	return metrics.Incoming{
		Limit: n.incoming.Bytes(), By: map[string]metrics.IncomingBy{
			"amqp": metrics.IncomingBy(n.incomingAMQP.Stats()), "grpc": metrics.IncomingBy(n.api.Incoming()),
		},
	}
}

// outgoingFigures are the figures of large answers.
func (n *node) outgoingFigures() metrics.Outgoing {
	x := n.api.Outgoing()
	return metrics.Outgoing{Limit: n.outgoing.Bytes(), Bytes: x.Bytes, Waiting: x.Waiting, Waits: x.Waits, Refused: x.Refused}
}

// listenerFigures adds up the figures of all AMQP listeners.
func (n *node) listenerFigures() (sum metrics.Listener) {
	for _, l := range n.amqp {
		s := l.Stats()
		sum.Opened += s.Opened
		sum.Closed += s.Closed
		sum.ChannelsFailed += s.ChannelsFailed
		sum.Refused += s.Refused
		sum.Failed += s.Failed
		sum.Stalled += s.Stalled
		sum.Blocked += s.Blocked
		sum.Connections += s.Connections
		sum.Channels += s.Channels
		sum.Consumers += s.Consumers
	}
	return sum
}

// exportFigures are those of the members that this node reads for backups.
func (n *node) exportFigures() metrics.Exports {
	x := n.part.Exports()
	out := metrics.Exports{Running: x.Running, Bytes: x.Bytes, Rate: x.Rate, Slowed: make(map[string]uint64, len(x.Slowed))}
	for cause, times := range x.Slowed {
		out.Slowed[string(cause)] = times
	}
	return out
}
