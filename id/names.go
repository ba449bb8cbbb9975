package id

// Names returns the names of nodes, in their order.
func Names(nodes []NodeID) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = string(n)
	}
	return out
}
