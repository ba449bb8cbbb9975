package remote

import (
	"slices"
	"testing"

	"github.com/quorate/quorate/chaos/target"
)

// Clients of all nodes know the address of the service by which the cluster was found, those of one node do not.
func TestDial(t *testing.T) {
	c := New(Options{}, []target.Node{{ID: "a", Client: "a:7070"}, {ID: "b", Client: "b:7070"}})
	c.given = []string{"service:7070", "b:7070"}
	for _, x := range []struct{ nodes, want []string }{
		{nil, []string{"a:7070", "b:7070", "service:7070"}},
		{[]string{"b"}, []string{"b:7070"}},
		{[]string{"b", "a"}, []string{"b:7070", "a:7070"}},
	} {
		if cfg := c.Dial(x.nodes...); !slices.Equal(cfg.Addresses, x.want) || !cfg.FixedAddresses {
			t.Errorf("clients of %v know %v, fixed: %v, want %v", x.nodes, cfg.Addresses, cfg.FixedAddresses, x.want)
		}
	}
}
