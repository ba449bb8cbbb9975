package serve

import (
	"iter"
	"net/http"

	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/metrics"
)

// operations answers what listen.http is asked: about health from the first moment on, for
// metrics once the node has started.
func (n *node) operations() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/health/", n.health.handler())
	for path, part := range map[string]func(*metrics.Metrics) http.Handler{
		"GET /metrics": (*metrics.Metrics).Node, "GET /metrics/queues": (*metrics.Metrics).Queues,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			m := n.metrics.Load()
			if m == nil {
				http.Error(w, "the node has not started yet", http.StatusServiceUnavailable)
				return
			}
			part(m).ServeHTTP(w, r)
		})
	}
	return mux
}

// showMetrics lets metrics be scraped. All listeners are there.
func (n *node) showMetrics() {
	n.metrics.Store(metrics.New(metrics.Sources{
		Node: n.cfg.NodeID, Cluster: n.cfg.Cluster.Name, Version: n.version, Logger: n.log,
		Queues: n.ledQueues, Gateway: n.gatewayFigures, Listener: listeners(n.amqp).figures,
		Links: n.linkFigures, Log: n.part.LogStats, Members: n.part.Members,
	}))
}

func (n *node) ledQueues() iter.Seq[metrics.Queue] {
	return func(yield func(metrics.Queue) bool) {
		for q := range n.broker.LedQueues() {
			if !yield(metrics.Queue{UID: q.UID, VHost: q.VHost, Name: q.Name, Figures: q.Figures}) {
				return
			}
		}
	}
}

func (n *node) gatewayFigures() metrics.Gateway {
	c, d := n.broker.Counters(), n.broker.DeadLetterCauses()
	buffered, stopped := n.broker.Buffered()
	return metrics.Gateway{
		Published: c.Published, Confirmed: c.Confirmed, Rejected: c.Rejected, Invalid: c.Invalid,
		UnroutableReturned: c.UnroutableReturned, UnroutableDropped: c.UnroutableDropped,
		LoginsRefused: c.LoginsRefused, Alarms: c.Alarms, Alarm: n.broker.Alarm() != nil,
		Buffered: buffered, Stopped: stopped,
		DeadLetterConfirmed: c.DeadLetterConfirmed,
		Waiting:             d.Waiting, Retries: d.Retries, Lost: d.Lost, Blocked: d.Blocked,
	}
}

func (n *node) linkFigures() metrics.Links {
	s := n.part.LinkStats()
	links := metrics.Links{Refused: s.Refused, Starved: s.Starved}
	for _, p := range s.Peers {
		if p.Up {
			links.Up++
		} else {
			links.Down++
		}
		links.QueueBytes += p.RaftQueueBytes + p.QueueBytes
		links.Reconnects += max(p.Connects, 1) - 1
		links.Failures += p.Failures
	}
	return links
}

type listeners []*amqp.Server

// figures adds those of all listeners up.
func (ls listeners) figures() (sum metrics.Listener) {
	for _, l := range ls {
		s := l.Stats()
		sum.Opened += s.Opened
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
