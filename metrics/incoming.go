package metrics

import "github.com/prometheus/client_golang/prometheus"

// incomingRows are those of messages that are not whole: of all, and by protocol.
func incomingRows() []row[*Incoming] {
	all := []row[*Incoming]{{
		"quorate_incoming_limit_bytes", "", "limits.incoming_bytes in force, for all protocols together.", gauge, nil, false,
		func(x *Incoming) float64 { return float64(x.Limit) },
	}}
	for _, protocol := range []string{"amqp", "grpc"} {
		add := func(name, help string, kind prometheus.ValueType, value func(IncomingBy) float64) {
			all = append(all, row[*Incoming]{
				name, "", help, kind,
				prometheus.Labels{"protocol": protocol},
				false,
				func(x *Incoming) float64 { return value(x.By[protocol]) },
			})
		}
		add("quorate_incoming_bytes", "Bytes that incomplete incoming messages hold; for gRPC also the bytes reserved for them.", gauge,
			func(x IncomingBy) float64 { return float64(x.Bytes) })
		add("quorate_incoming_waiting", "AMQP connections, or gRPC messages, that wait for memory.", gauge,
			func(x IncomingBy) float64 { return float64(x.Waiting) })
		add("quorate_incoming_waits_total", "Times that an AMQP connection or a gRPC message had to wait for memory.", counter, func(x IncomingBy) float64 { return float64(x.Waits) })
		add("quorate_incoming_refused_total", "AMQP connections closed at limits.incoming_connection_bytes, and gRPC messages refused because too many were waiting.",
			counter, func(x IncomingBy) float64 { return float64(x.Refused) })
		add("quorate_incoming_late_total", "Messages that did not arrive completely in time.", counter, func(x IncomingBy) float64 { return float64(x.Late) })
	}
	return all
}
