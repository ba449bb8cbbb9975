package metrics

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Prefixes of RabbitMQ's names: those of its figures, and of the same for each queue.
const (
	rabbitPrefix   = "rabbitmq_"
	detailedPrefix = "rabbitmq_detailed_"
)

// families returns the figures of each of RabbitMQ's families that a queue has.
func families() map[string][]string {
	return map[string][]string{
		"queue_coarse_metrics": {"rabbitmq_queue_messages_ready", "rabbitmq_queue_messages_unacked"},
		"queue_consumer_count": {"rabbitmq_queue_consumers"},
		"queue_metrics":        {"rabbitmq_queue_consumers", "rabbitmq_queue_messages_ready_bytes", "rabbitmq_queue_messages_unacked_bytes", "rabbitmq_queue_messages_published_total"},
		"queue_delivery_metrics": {
			"rabbitmq_queue_get_total", "rabbitmq_queue_get_empty_total", "rabbitmq_queue_messages_delivered_total",
			"rabbitmq_queue_messages_redelivered_total", "rabbitmq_queue_messages_acked_total",
		},
	}
}

// Detailed answers like Queues, in the form of RabbitMQ's /metrics/detailed: under its names, and the families of figures
// that the parameters family choose; all without one. vhost may be given more than once, queue is as for Queues.
func (m *Metrics) Detailed() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		name, ok := queueName(w, q)
		if !ok {
			return
		}
		c := detailedCollector{m: m, vhosts: q["vhost"], name: name}
		all := families()
		wanted := q["family"]
		if len(wanted) == 0 {
			for name := range all {
				wanted = append(wanted, name)
			}
		}
		for _, name := range wanted {
			figures, known := all[name]
			if !known {
				http.Error(w, "family = "+strconv.Quote(name)+": use queue_coarse_metrics, queue_consumer_count, queue_metrics or queue_delivery_metrics", http.StatusBadRequest)
				return
			}
			c.figures = append(c.figures, figures...)
		}
		one := prometheus.NewRegistry()
		one.MustRegister(c)
		handler(one, m.src.Logger).ServeHTTP(w, r)
	})
}

// detailedCollector collects what Detailed shows to one scrape.
type detailedCollector struct {
	m       *Metrics
	vhosts  []string       // empty: all
	name    *regexp.Regexp // of queues; nil: any
	figures []string       // RabbitMQ's names
}

// Describe implements prometheus.Collector. It describes nothing, which lets Collect send any metric.
func (detailedCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c detailedCollector) Collect(ch chan<- prometheus.Metric) {
	descs := make([]*prometheus.Desc, len(c.m.queue))
	for i := range c.m.queue {
		r := &c.m.queue[i]
		if slices.Contains(c.figures, r.rabbit) {
			descs[i] = prometheus.NewDesc(detailedPrefix+strings.TrimPrefix(r.rabbit, rabbitPrefix), r.help, []string{"vhost", "queue"}, nil)
		}
	}
	shown, left := 0, 0
	for q := range c.m.src.Queues() {
		if len(c.vhosts) > 0 && !slices.Contains(c.vhosts, q.VHost) || c.name != nil && !c.name.MatchString(q.Name) {
			continue
		}
		if shown++; shown > MaxQueues {
			left++
			continue
		}
		for i, d := range descs {
			if d != nil {
				r := &c.m.queue[i]
				ch <- prometheus.MustNewConstMetric(d, r.kind, r.value(q.Figures), q.VHost, q.Name)
			}
		}
	}
	ch <- prometheus.MustNewConstMetric(c.m.descs.leftOut, prometheus.GaugeValue, float64(left))
}
