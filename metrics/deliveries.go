package metrics

import "github.com/prometheus/client_golang/prometheus"

// deliveryRows count what clients of this node were given, whoever leads the queues.
func deliveryRows() (rows []row[*Gateway]) {
	for _, r := range []struct {
		way, ack string
		value    func(*Gateway) uint64
	}{
		{"consume", "manual", func(g *Gateway) uint64 { return g.Consumed }},
		{"consume", "auto", func(g *Gateway) uint64 { return g.ConsumedAutoAck }},
		{"get", "manual", func(g *Gateway) uint64 { return g.Got }},
		{"get", "auto", func(g *Gateway) uint64 { return g.GotAutoAck }},
	} {
		rows = append(rows, row[*Gateway]{
			"quorate_messages_delivered_total", "rabbitmq_global_messages_delivered_" + r.way + "_" + r.ack + "_ack_total",
			"Messages given to clients, by how they asked for them and by how they acknowledge them.", counter,
			prometheus.Labels{"way": r.way, "ack": r.ack},
			false,
			func(g *Gateway) float64 { return float64(r.value(g)) },
		})
	}
	return rows
}
