package metrics

import "github.com/prometheus/client_golang/prometheus"

// Tracing counts spans of traced messages.
type Tracing struct {
	Exported, Full, Failed uint64 // Full: too many were waiting; Failed: the collector did not take them
}

// tracingRows are the figures of spans.
func tracingRows() []row[*Tracing] {
	dropped := func(reason string, value func(*Tracing) float64) row[*Tracing] {
		return row[*Tracing]{
			"quorate_trace_spans_dropped_total", "", "Spans that the collector did not get: queue_full, too many were waiting; export_failed, it did not take them.",
			counter,
			prometheus.Labels{"reason": reason},
			false, value,
		}
	}
	return []row[*Tracing]{
		{
			"quorate_trace_spans_exported_total", "", "Spans that the collector of traces has taken.",
			counter, nil, false, func(t *Tracing) float64 { return float64(t.Exported) },
		},
		dropped("queue_full", func(t *Tracing) float64 { return float64(t.Full) }),
		dropped("export_failed", func(t *Tracing) float64 { return float64(t.Failed) }),
	}
}
