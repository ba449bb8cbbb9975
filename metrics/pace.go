package metrics

import "time"

// Pace are the figures of gRPC connections that have not logged in and sent more than the node reads
// from such.
type Pace struct {
	Holding int64 // now
	Holds   uint64
	Held    time.Duration // by all together
}

// paceRows are the figures of gRPC connections that were held back before their login.
func paceRows() []row[*Pace] {
	return []row[*Pace]{
		{
			"quorate_grpc_unauthenticated_held", "", "gRPC connections from which the node reads nothing now, because they sent too much before their login.",
			gauge, nil, false, func(p *Pace) float64 { return float64(p.Holding) },
		},
		{
			"quorate_grpc_unauthenticated_holds_total", "", "Times that the node paused reading from a gRPC connection because it sent too much before its login.",
			counter, nil, false, func(p *Pace) float64 { return float64(p.Holds) },
		},
		{
			"quorate_grpc_unauthenticated_held_seconds_total", "", "Total time of these pauses, of all connections together.",
			counter, nil, false, func(p *Pace) float64 { return p.Held.Seconds() },
		},
	}
}
