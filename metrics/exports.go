package metrics

import "github.com/prometheus/client_golang/prometheus"

// Exports are the figures of the members of queues that this node reads for backups.
type Exports struct {
	Running int
	Bytes   uint64            // read since the start
	Rate    float64           // bytes per second that may be read now
	Slowed  map[string]uint64 // times since the start that they were slowed, by cause
}

// exportRows are the figures of exports. The causes are those of package cluster/export.
func exportRows() []row[*Exports] {
	rows := []row[*Exports]{
		{"quorate_exports", "", "Members of queues that this node reads for backups now.", gauge, nil, false, func(x *Exports) float64 { return float64(x.Running) }},
		{"quorate_export_bytes_total", "", "Bytes that this node has read for backups.", counter, nil, false, func(x *Exports) float64 { return float64(x.Bytes) }},
		{"quorate_export_pace_bytes", "", "Bytes per second that this node may read for backups now; 0: it reads nothing.", gauge, nil, false, func(x *Exports) float64 { return x.Rate }},
	}
	for _, cause := range []string{"confirms", "processor", "syncs"} {
		rows = append(rows, row[*Exports]{
			"quorate_export_slowed_total", "", "Times that this node has slowed its exports because clients felt them, by what took longer.",
			counter,
			prometheus.Labels{"cause": cause},
			false, func(x *Exports) float64 { return float64(x.Slowed[cause]) },
		})
	}
	return rows
}
