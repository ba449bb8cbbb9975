package metrics

// Limited is what queues have held up or refused of what clients publish, since the start of the node.
type Limited struct {
	// Held publishes have had to wait because too many messages waited for the leader of their queue; Holding do so now.
	Held    uint64
	Holding int64
	// Refusals are messages that a queue did not take, by cause.
	Refusals map[string]uint64
}

// limitedRows are the figures of what was held up.
func limitedRows() []row[*Gateway] {
	return []row[*Gateway]{
		{
			"quorate_publishes_waiting", "", "Publishes that wait now because too many messages wait for the leader of their queue.", gauge, nil, false,
			func(g *Gateway) float64 { return float64(g.Limited.Holding) },
		},
		{
			"quorate_publishes_held_total", "", "Publishes that had to wait because too many messages waited for the leader of their queue.", counter, nil, false,
			func(g *Gateway) float64 { return float64(g.Limited.Held) },
		},
	}
}
