package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Logins are the answers of a backend since the node's start.
type Logins struct{ Accepted, Refused, Unavailable uint64 }

// IssuerKeys are the figures of the keys of the issuer of tokens.
type IssuerKeys struct {
	Keys     int
	Age      time.Duration // since they were fetched; negative: they never were
	Failures uint64
}

// logins shows who was asked to log somebody in, and how that went.
func (m *Metrics) logins(ch chan<- prometheus.Metric) {
	for backend, l := range m.src.Logins() {
		for outcome, n := range map[string]uint64{"accepted": l.Accepted, "refused": l.Refused, "unavailable": l.Unavailable} {
			ch <- prometheus.MustNewConstMetric(m.descs.logins, prometheus.CounterValue, float64(n), backend, outcome)
		}
	}
	k, on := m.src.IssuerKeys()
	if !on {
		return
	}
	age := k.Age.Seconds()
	if age < 0 {
		age = math.Inf(1)
	}
	ch <- prometheus.MustNewConstMetric(m.descs.keys, prometheus.GaugeValue, float64(k.Keys))
	ch <- prometheus.MustNewConstMetric(m.descs.keysAge, prometheus.GaugeValue, age)
	ch <- prometheus.MustNewConstMetric(m.descs.keyFailures, prometheus.CounterValue, float64(k.Failures))
}
