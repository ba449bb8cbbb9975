package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/quorate/quorate/quorumq"
)

// rabbit are figures that the node has under RabbitMQ's names alone, because it has them elsewhere in another form.
type rabbit struct {
	began   time.Time
	process *prometheus.Registry // the process's own figures
}

// newRabbit returns the figures of a node that starts now.
func newRabbit() rabbit {
	r := rabbit{began: time.Now(), process: prometheus.NewRegistry()}
	r.process.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// sendRabbit sends them.
func (m *Metrics) sendRabbit(ch chan<- prometheus.Metric) {
	send := func(name, help string, kind prometheus.ValueType, v float64) {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(rabbitPrefix+name, help, nil, nil), kind, v)
	}
	send("erlang_uptime_seconds", "Time since the node started.", gauge, time.Since(m.rabbit.began).Seconds())
	families, err := m.rabbit.process.Gather()
	if err != nil {
		m.src.Logger.Warn("figures of the process could not be had", "error", err) // the others are sent nevertheless
	}
	for _, f := range families {
		switch f.GetName() {
		case "process_open_fds", "process_max_fds", "process_resident_memory_bytes":
			send(f.GetName(), f.GetHelp(), gauge, f.GetMetric()[0].GetGauge().GetValue())
		}
	}
}

// rabbitReason is RabbitMQ's name for discarded messages of a reason; "": it has none.
func rabbitReason(r quorumq.Reason) string {
	if r == quorumq.ReasonQueueDeleted {
		return ""
	}
	return "rabbitmq_global_messages_dead_lettered_" + r.String() + "_total"
}

// further returns more names that RabbitMQ has for a figure, besides the one in its row: its dashboards ask for sums of a
// node under names of their own.
func further(name string) []string {
	switch name {
	case "quorate_messages_received_total":
		return []string{"rabbitmq_global_messages_received_confirm_total"}
	case "quorate_queue_delivered_total":
		return []string{"rabbitmq_global_messages_delivered_total"}
	case "quorate_queue_redelivered_total":
		return []string{"rabbitmq_global_messages_redelivered_total"}
	case "quorate_queue_settled_total":
		return []string{"rabbitmq_global_messages_acknowledged_total"}
	case "quorate_queue_empty_gets_total":
		return []string{"rabbitmq_global_messages_get_empty_total"}
	case "quorate_amqp_consumers":
		return []string{"rabbitmq_global_consumers"}
	}
	return nil
}
