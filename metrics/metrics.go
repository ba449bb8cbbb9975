// Package metrics shows a node's figures to Prometheus. It pulls them from the parts that have them when
// it is asked, so that what nobody scrapes costs nothing.
//
// Names begin with quorate_; the figures that RabbitMQ has too are there under its names as
// well, so that dashboards and alert rules made for it go on working.
package metrics

import (
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/quorate/quorate/internal/gate"
	"github.com/quorate/quorate/internal/latency"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/wal"
)

// MaxQueues is how many queues one answer of Queues has; the figure
// quorate_metrics_queues_left_out counts the others that match.
const MaxQueues = 5000

// Sources are where the figures come from; all functions may be called concurrently.
type Sources struct {
	Node, Cluster, Version string
	Queues                 func() iter.Seq[Queue] // that this node leads
	Gateway                func() Gateway
	Incoming               func() Incoming
	Outgoing               func() Outgoing
	Pace                   func() Pace     // of gRPC
	Listener               func() Listener // of AMQP
	Exports                func() Exports
	Memory                 func() Memory
	Links                  func() Links // between nodes
	Clock                  func() Clock
	Log                    func() (wal.Stats, bool)
	Members                func() (open, hibernated int)      // of queues on this node
	LeadersSpread          func() uint64                      // queues handed over by this node to even out leaders
	Replaced               func() uint64                      // nodes whose stores this one has given up
	Refused                func() map[string]int              // peers that this node refuses now, by reason
	Versions               func() (finalised, reads int)      // of stored state: in the cluster, by this build
	CertificateEnds        func() map[string]time.Time        // of the certificates in force, by listener; none without TLS
	Logins                 func() map[string]Logins           // answers of the backends, by their names
	IssuerKeys             func() (IssuerKeys, bool)          // false: there is no issuer of tokens
	Gates                  func() map[string]gate.Stats       // of connections that come in, by name
	Positions              func() iter.Seq2[uint64, Position] // of the members of queues, by UID
	Confirms, Syncs        *latency.Histogram                 // how long clients waited for confirms, and batches of the log
	Tracing                func() Tracing
	Logger                 *slog.Logger
}

// Queue is a queue with its figures.
type Queue struct {
	UID         uint64
	VHost, Name string
	// Figures are valid until the next is yielded. Now is that of the queue at present: it may
	// have had no command for long.
	Figures *quorumq.Overview
}

// Gateway are a node's figures as gateway, and of the dead letters that it forwards. All but
// Alarm, Blocked, Waiting and DefinitionsWaiting count since its start.
type Gateway struct {
	Published, Confirmed, Rejected, Invalid uint64
	UnroutableReturned, UnroutableDropped   uint64
	Undecidable                             uint64        // of the rejected, those that the node could not route
	Serves                                  bool          // its view of the catalog was confirmed
	ViewAge                                 time.Duration // how old that may be; negative: nobody knows
	LoginsRefused, LoginsUnseen, Alarms     uint64
	UnknownArguments                        uint64 // of declarations
	DefinitionsWaiting                      int    // objects of the configuration's definitions that are not created yet
	Buffered                                int64  // bytes of deliveries that clients do not take
	Stopped                                 uint64 // times that a consumer waited for room for more
	Alarm                                   bool
	DeadLetterConfirmed                     uint64
	Waiting, Retries, Lost                  map[string]uint64 // dead letters by cause (DL-26)
	Blocked                                 int               // queues whose dead letters wait
	Audit                                   []AuditCount
	Quotas                                  []QuotaCount
	QuotaWaiting                            int64 // publishers that a quota holds back now
	Limited                                 Limited
	// Messages that clients were given, to consumers and one by one, by whether they acknowledge them.
	Consumed, ConsumedAutoAck, Got, GotAutoAck uint64
	// Channels that clients of the node opened and closed, and queues that they declared; queues that came and went by its
	// commands.
	ChannelsOpened, ChannelsClosed, QueuesDeclared, QueuesCreated, QueuesDeleted uint64
}

// AuditCount is how many audit records of an operation with an outcome there were (AU-1). There are
// a few dozen operations.
type AuditCount struct {
	Operation, Outcome string
	Count              uint64
}

// QuotaCount is how often a quota of a scope was reached, and for how long publishers waited (VH-14): ten
// of them at most.
type QuotaCount struct {
	Scope, Quota string
	Reached      uint64
	Held         time.Duration
}

// Memory are a node's figures of memory, in bytes; 0: there is no such limit.
type Memory struct {
	Used, Limit, High   int64 // High: publishers are held back above it
	Bodies, BodiesLimit int64 // bodies of messages that are kept to save reads
	Tail, TailLimit     int64 // recent entries of the log, likewise
}

// Listener are the figures of the AMQP listeners.
type Listener struct {
	Opened, Closed, Refused, Failed, Stalled, Blocked uint64
	ChannelsFailed                                    uint64
	Connections, Channels, Consumers                  int64
}

// Incoming are messages that have begun to come and are not whole, by protocol: amqp, grpc.
type Incoming struct {
	Limit int64 // bytes, of all
	By    map[string]IncomingBy
}

// IncomingBy are those of one protocol.
type IncomingBy struct {
	Bytes                int64
	Waiting              int // for room
	Waits, Refused, Late uint64
}

// Outgoing are the large answers of single calls over gRPC that clients have not read.
type Outgoing struct {
	Limit, Bytes   int64
	Waiting        int // calls that wait for room
	Waits, Refused uint64
}

// Links are the figures of the links to the other nodes, and of what these are judged by.
type Links struct {
	Up, Down                      int // nodes
	Unsteady                      int // nodes whose links come and go
	Around                        int // of those that are up: through another node
	Detours                       int // connections that are passed on for others
	QueueBytes                    int // waiting on links
	Reconnects, Failures, Refused uint64
	Stuck                         uint64  // connections given up because they stood still although heartbeats passed
	Starved                       float64 // share of the recent time without a processor, 0 to 1
}

// Metrics answers scrapes. Its methods may be called concurrently.
type Metrics struct {
	src   Sources
	node  http.Handler
	descs descs

	queue    []row[*quorumq.Overview]
	one      []*prometheus.Desc // of queue, with the labels of one queue
	gateway  []row[*Gateway]
	incoming []row[*Incoming]
	outgoing []row[*Outgoing]
	pace     []row[*Pace]
	listener []row[*Listener]
	exports  []row[*Exports]
	memory   []row[*Memory]
	links    []row[*Links]
	clock    []row[*Clock]
	log      []row[*wal.Stats]
	gates    []row[*gate.Stats]
	tracing  []row[*Tracing]

	totals totals[*quorumq.Overview]
	engine engine
	rabbit rabbit
}

// New returns the metrics of a node.
func New(src Sources) *Metrics {
	m := &Metrics{
		src: src, descs: newDescs(), queue: queueRows(), gateway: gatewayRows(), incoming: incomingRows(), outgoing: outgoingRows(), pace: paceRows(), listener: listenerRows(),
		memory: memoryRows(), links: linkRows(), clock: clockRows(), log: logRows(), gates: gateRows(), exports: exportRows(),
	}
	m.tracing = tracingRows()
	m.one, m.totals = ofOne(m.queue), newTotals(m.queue)
	m.engine, m.rabbit = newEngine(), newRabbit()
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector(), nodeCollector{m})
	m.node = handler(r, src.Logger)
	return m
}

// handler shows what a registry gathers; a figure that fails does not hide the others.
func handler(r *prometheus.Registry, log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	})
}

// Node answers with the figures of the node, and the sums over the queues that it leads.
func (m *Metrics) Node() http.Handler { return m.node }

// Queues answers with the figures of each queue that this node leads, at most MaxQueues. The
// parameters vhost and queue choose: the vhost by its name, queues by a regular expression
// for the whole name.
func (m *Metrics) Queues() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		name, ok := queueName(w, q)
		if !ok {
			return
		}
		c := queueCollector{m: m, vhost: q.Get("vhost"), anyVHost: !q.Has("vhost"), name: name}
		one := prometheus.NewRegistry()
		one.MustRegister(c)
		handler(one, m.src.Logger).ServeHTTP(w, r)
	})
}

// queueName returns what the parameter queue chooses, a regular expression for the whole name; nil: any. A fault in it is
// answered, and not ok.
func queueName(w http.ResponseWriter, q url.Values) (name *regexp.Regexp, ok bool) {
	text := q.Get("queue")
	if text == "" {
		return nil, true
	}
	name, err := regexp.Compile("^(?:" + text + ")$")
	if err != nil {
		http.Error(w, "queue = "+strconv.Quote(text)+": "+err.Error(), http.StatusBadRequest)
	}
	return name, err == nil
}

// row is one figure of a T.
type row[T any] struct {
	name, rabbit, help string // rabbit: the name that RabbitMQ has for it, "" for none
	kind               prometheus.ValueType
	labels             prometheus.Labels
	most               bool // the sum over several is their greatest
	value              func(T) float64
}

// send shows the value of a row under its names.
func (r *row[T]) send(ch chan<- prometheus.Metric, v float64) {
	for _, name := range append([]string{r.name, r.rabbit}, further(r.name)...) {
		if name != "" {
			ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, r.help, nil, r.labels), r.kind, v)
		}
	}
}

// nodeCollector collects what Node shows.
type nodeCollector struct{ m *Metrics }

// Describe implements prometheus.Collector. It describes nothing, which lets Collect send any metric.
func (nodeCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c nodeCollector) Collect(ch chan<- prometheus.Metric) {
	src := &c.m.src
	c.m.info(ch)
	g := src.Gateway()
	sendRows(ch, c.m.gateway, &g)
	for cause, n := range g.Waiting {
		ch <- prometheus.MustNewConstMetric(c.m.descs.waiting, prometheus.GaugeValue, float64(n), cause)
	}
	for cause, n := range g.Retries {
		ch <- prometheus.MustNewConstMetric(c.m.descs.retries, prometheus.CounterValue, float64(n), cause)
	}
	for cause, n := range g.Lost {
		ch <- prometheus.MustNewConstMetric(c.m.descs.lost, prometheus.CounterValue, float64(n), cause)
	}
	for cause, n := range g.Limited.Refusals {
		ch <- prometheus.MustNewConstMetric(c.m.descs.refusals, prometheus.CounterValue, float64(n), cause)
	}
	for _, a := range g.Audit {
		ch <- prometheus.MustNewConstMetric(c.m.descs.audit, prometheus.CounterValue, float64(a.Count), a.Operation, a.Outcome)
	}
	for _, q := range g.Quotas {
		ch <- prometheus.MustNewConstMetric(c.m.descs.quotaReached, prometheus.CounterValue, float64(q.Reached), q.Scope, q.Quota)
		ch <- prometheus.MustNewConstMetric(c.m.descs.quotaHeld, prometheus.CounterValue, q.Held.Seconds(), q.Scope, q.Quota)
	}
	in, out, pace := src.Incoming(), src.Outgoing(), src.Pace()
	sendRows(ch, c.m.incoming, &in)
	sendRows(ch, c.m.outgoing, &out)
	sendRows(ch, c.m.pace, &pace)
	exports := src.Exports()
	sendRows(ch, c.m.exports, &exports)
	spans := src.Tracing()
	sendRows(ch, c.m.tracing, &spans)
	l := src.Listener()
	sendRows(ch, c.m.listener, &l)
	memory := src.Memory()
	sendRows(ch, c.m.memory, &memory)
	links := src.Links()
	sendRows(ch, c.m.links, &links)
	clock := src.Clock()
	sendRows(ch, c.m.clock, &clock)
	for node, offset := range clock.Offsets {
		ch <- prometheus.MustNewConstMetric(c.m.descs.offset, prometheus.GaugeValue, offset.Seconds(), node)
	}
	if s, ok := src.Log(); ok {
		sendRows(ch, c.m.log, &s)
	}
	finalised, reads := src.Versions()
	ch <- prometheus.MustNewConstMetric(c.m.descs.finalised, prometheus.GaugeValue, float64(finalised))
	ch <- prometheus.MustNewConstMetric(c.m.descs.reads, prometheus.GaugeValue, float64(reads))
	ch <- prometheus.MustNewConstMetric(c.m.descs.spread, prometheus.CounterValue, float64(src.LeadersSpread()))
	ch <- prometheus.MustNewConstMetric(c.m.descs.replaced, prometheus.CounterValue, float64(src.Replaced()))
	for reason, n := range src.Refused() {
		ch <- prometheus.MustNewConstMetric(c.m.descs.refused, prometheus.GaugeValue, float64(n), reason)
	}
	for listener, end := range src.CertificateEnds() {
		ch <- prometheus.MustNewConstMetric(c.m.descs.certificate, prometheus.GaugeValue, float64(end.Unix()), listener)
	}
	c.m.logins(ch)
	for name, s := range src.Gates() {
		for i := range c.m.gates {
			r := &c.m.gates[i]
			ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(r.name, r.help, []string{"gate"}, nil), r.kind, r.value(&s), name)
		}
	}
	open, hibernated := src.Members()
	ch <- prometheus.MustNewConstMetric(c.m.descs.members, prometheus.GaugeValue, float64(open), "awake")
	ch <- prometheus.MustNewConstMetric(c.m.descs.members, prometheus.GaugeValue, float64(hibernated), "hibernated")
	c.m.collectEngine(ch)
	c.m.sendRabbit(ch)
	n, _ := c.m.totals.collect(ch, byUID(src.Queues()))
	led := float64(n)
	ch <- prometheus.MustNewConstMetric(c.m.descs.led, prometheus.GaugeValue, led)
	ch <- prometheus.MustNewConstMetric(c.m.descs.rabbitLed, prometheus.GaugeValue, led)
}

// sendRows reads all figures of one source.
func sendRows[T any](ch chan<- prometheus.Metric, rows []row[T], of T) {
	for i := range rows {
		rows[i].send(ch, rows[i].value(of))
	}
}

// info sends what has its meaning in labels: which build and which node this is.
func (m *Metrics) info(ch chan<- prometheus.Metric) {
	one := func(name, help string, labels prometheus.Labels) {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, labels), prometheus.GaugeValue, 1)
	}
	one("quorate_info", "Always 1; the labels identify the node, its cluster and its version.",
		prometheus.Labels{"node": m.src.Node, "cluster": m.src.Cluster, "version": m.src.Version})
	one("rabbitmq_identity_info", "The node and its cluster.",
		prometheus.Labels{"rabbitmq_node": m.src.Node, "rabbitmq_cluster": m.src.Cluster, "rabbitmq_endpoint": "aggregated"})
	one("rabbitmq_build_info", "The version.", prometheus.Labels{"rabbitmq_version": m.src.Version, "product_name": "Quorate"})
}

// queueCollector collects what Queues shows to one scrape.
type queueCollector struct {
	m        *Metrics
	vhost    string
	anyVHost bool
	name     *regexp.Regexp // nil: any
}

// Describe implements prometheus.Collector. It describes nothing, which lets Collect send any metric.
func (queueCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c queueCollector) Collect(ch chan<- prometheus.Metric) {
	shown, left := 0, 0
	for q := range c.m.src.Queues() {
		if !c.anyVHost && q.VHost != c.vhost || c.name != nil && !c.name.MatchString(q.Name) {
			continue
		}
		if shown++; shown > MaxQueues {
			left++
			continue
		}
		for i := range c.m.queue {
			r := &c.m.queue[i]
			if v := r.value(q.Figures); v != 0 || r.kind == prometheus.GaugeValue {
				ch <- prometheus.MustNewConstMetric(c.m.one[i], r.kind, v, q.VHost, q.Name)
			}
		}
	}
	ch <- prometheus.MustNewConstMetric(c.m.descs.leftOut, prometheus.GaugeValue, float64(left))
}

// ageSeconds is how long ago something was at a queue's time.
func ageSeconds(o *quorumq.Overview, since quorumq.Time) float64 {
	if since == 0 {
		return 0
	}
	return float64(max(o.Now-since, 0)) / 1e3
}
