package serve

import (
	"slices"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/metrics"
)

// A node that the cluster has forgotten is no link that is down, and one that this node has never met is. What the links of
// nodes counted that are no peers any more stays in the sums.
func TestLinks(t *testing.T) {
	s := transport.Stats{Detours: 1, Stuck: 4, Former: transport.Former{Reconnects: 10, Failures: 20}, Peers: []transport.PeerStats{
		{Node: "b", Up: true, Connects: 3, QueueBytes: 5}, {Node: "c", Up: true, Through: "b", Connects: 1}, {Node: "d", Failures: 2}, {Node: "forgotten", Failures: 7},
	}}
	nodes := []*catalog.Node{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}, {ID: "never met"}}
	want := metrics.Links{Up: 2, Down: 2, Around: 1, Detours: 1, Stuck: 4, QueueBytes: 5, Reconnects: 12, Failures: 29}
	if got := sumLinks(s, slices.Values(nodes), "a"); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
