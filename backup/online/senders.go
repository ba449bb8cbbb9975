package online

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/client"
)

// senders are the nodes that can send copies of queues.
type senders map[string]client.ClusterNode // those that are alive, by their id

// newSenders returns the senders of a cluster.
func newSenders(s *client.ClusterStatus) senders {
	out := senders{}
	for _, n := range s.Nodes {
		if n.Alive && n.ClientAddress != "" {
			out[n.ID] = n
		}
	}
	return out
}

// of returns the client addresses of the nodes that have a copy of a queue, those first that should read and send it.
// Other nodes would pass on what one of these reads, on the connection on which the two agree about messages. So
// would the leader, which comes last, as long as there are followers. Of these the one that leads the fewest queues
// comes first: what it reads makes the fewest clients wait.
func (s senders) of(q *client.QueueInfo) []string {
	var nodes []client.ClusterNode
	for _, m := range q.Members {
		if n, alive := s[m]; alive {
			nodes = append(nodes, n)
		}
	}
	slices.SortStableFunc(nodes, func(a, b client.ClusterNode) int {
		switch q.Leader {
		case a.ID:
			return 1
		case b.ID:
			return -1
		}
		return cmp.Compare(a.Leaders, b.Leaders)
	})
	addresses := make([]string, len(nodes))
	for i, n := range nodes {
		addresses[i] = n.ClientAddress
	}
	return addresses
}
