package metrics

import "time"

// Clock are the figures of the node's clocks, and of the other nodes' as it sees them.
type Clock struct {
	Steps, Jumps uint64                   // of the wall clock, and of the clock of the cluster
	Confirmed    bool                     // a majority of wall clocks agrees on the time
	Limit        time.Duration            // by how much they may differ
	Error        time.Duration            // of the own wall clock, from the time of the cluster
	QueueAhead   time.Duration            // of the led queue that is furthest from that time
	Offsets      map[string]time.Duration // of all nodes' wall clocks from it, by node
}

// clockRows are the figures of the clock of the cluster.
func clockRows() []row[*Clock] {
	confirmed := func(c *Clock) float64 {
		if c.Confirmed {
			return 1
		}
		return 0
	}
	return []row[*Clock]{
		{
			"quorate_clock_steps_total", "", "Times that this node's wall clock was set, by 50 ms or more.", counter, nil, false,
			func(c *Clock) float64 { return float64(c.Steps) },
		},
		{
			"quorate_clock_jumps_total", "", "Times that the time with which this node stamps commands jumped by more than the limit.", counter, nil, false,
			func(c *Clock) float64 { return float64(c.Jumps) },
		},
		{
			"quorate_clock_error_seconds", "", "This node's wall clock minus the cluster's time.", gauge, nil, false,
			func(c *Clock) float64 { return c.Error.Seconds() },
		},
		{
			"quorate_clock_limit_seconds", "", "Half of timeouts.clock_skew: the maximum difference at which wall clocks still agree.", gauge, nil, false,
			func(c *Clock) float64 { return c.Limit.Seconds() },
		},
		{"quorate_clock_confirmed", "", "1 while a majority of the cluster's wall clocks agrees on the time.", gauge, nil, false, confirmed},
		{
			"quorate_clock_queue_ahead_seconds", "", "Time of a queue minus the cluster's time, for the queue led by this node that deviates most.", gauge, nil, false,
			func(c *Clock) float64 { return c.QueueAhead.Seconds() },
		},
	}
}
