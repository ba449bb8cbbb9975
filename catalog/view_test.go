package catalog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
)

func mustApply(t *testing.T, c *catalog.Catalog, cmds ...catalog.Command) {
	t.Helper()
	for _, cmd := range cmds {
		if r := c.Apply(c.View().Index()+1, 0, cmd); r.Err != nil {
			t.Fatalf("%+v: %v", cmd, r.Err)
		}
	}
}

func TestViewReads(t *testing.T) {
	c := populated()
	v := c.View()
	if v.Index() != 5 || v.Now() != 4000 || v.QueueCount() != 1 || v.NodeCount() != 1 {
		t.Errorf("index %d, time %d, %d queues, %d nodes", v.Index(), v.Now(), v.QueueCount(), v.NodeCount())
	}
	q, ok := v.Queue("/", "q")
	if byUID, found := v.QueueByUID(id.FirstQueueUID); !ok || !found || q != byUID {
		t.Errorf("by name %+v, by UID %+v", q, byUID)
	}
	if n, ok := v.Node("n1"); !ok || n.Epoch != 300 {
		t.Errorf("node %+v, %v", n, ok)
	}
	for _, vhost := range []string{"/", "nowhere"} {
		if _, ok := v.Queue(vhost, "missing"); ok {
			t.Errorf("found a queue in %q that is not there", vhost)
		}
		if _, ok := v.Exchange(vhost, "missing"); ok {
			t.Errorf("found an exchange in %q that is not there", vhost)
		}
		if n := len(slices.Collect(v.BindingsFrom(vhost, "missing"))); n != 0 {
			t.Errorf("%d bindings of an exchange that is not there", n)
		}
	}
	if _, err := v.Route("nowhere", "", &catalog.Publication{}, nil); err == nil {
		t.Error("routed in a vhost that is not there")
	}
	for _, x := range []struct {
		list []*catalog.Binding
		want string
	}{
		{slices.Collect(v.BindingsFrom("/", "x")), "q"},
		{slices.Collect(v.BindingsTo("/", catalog.ToQueue, "q")), "q"},
		{slices.Collect(v.BindingsTo("/", catalog.ToExchange, "x")), "x"},
	} {
		if len(x.list) != 1 || x.list[0].Destination != x.want {
			t.Errorf("bindings %+v, want one to %q", x.list, x.want)
		}
	}
	for range v.Exchanges() {
		break // a caller may stop early
	}
}

// A time that runs backwards does not (C-6).
func TestTimeNeverFalls(t *testing.T) {
	c := catalog.New()
	c.Apply(7, 5000, &catalog.ForgetNode{ID: "n"})
	c.Apply(8, 4000, &catalog.DeleteQueue{VHost: "nowhere"})
	if v := c.View(); v.Now() != 5000 || v.Index() != 8 {
		t.Errorf("time %d, index %d", v.Now(), v.Index())
	}
}

// EX-11: a walk over hundreds of exchanges still visits each once.
func TestRouteManyExchanges(t *testing.T) {
	c := populated()
	const n = 300
	name := func(i int) string { return fmt.Sprintf("e%03d", i%n) }
	for i := range n {
		mustApply(t, c, &catalog.DeclareExchange{VHost: "/", Name: name(i), Type: catalog.ExchangeFanout})
	}
	for i := range n {
		for _, to := range []int{i + 1, i + 7, i} {
			mustApply(t, c, &catalog.Bind{
				VHost: "/", Source: name(i), DestinationKind: catalog.ToExchange, Destination: name(to),
			})
		}
	}
	mustApply(t, c, &catalog.Bind{VHost: "/", Source: name(n - 1), Destination: "q"})
	got, err := c.View().Route("/", name(0), &catalog.Publication{Keys: []string{"k"}}, []id.QueueUID{1})
	if err != nil || !slices.Equal(got, []id.QueueUID{1, id.FirstQueueUID}) {
		t.Errorf("got %v, %v", got, err)
	}
}

// C-3 and the catalog's own limits.
func TestLimits(t *testing.T) {
	if got := catalog.StripName("a\r\nb\n"); got != "ab" {
		t.Errorf("stripped to %q", got)
	}
	long := strings.Repeat("x", catalog.MaxNameBytes+1)
	wide := make(message.Table, message.MaxHeaders+1)
	for name, cmd := range map[string]catalog.Command{
		"queue name":      &catalog.DeclareQueue{VHost: "/", Name: long, Type: catalog.QueueQuorum},
		"queue arguments": &catalog.DeclareQueue{VHost: "/", Name: "n", Type: catalog.QueueQuorum, Arguments: wide},
		"exchange name":   &catalog.DeclareExchange{VHost: "/", Name: long, Type: catalog.ExchangeFanout},
		"exchange arguments": &catalog.DeclareExchange{
			VHost: "/", Name: "n", Type: catalog.ExchangeFanout, Arguments: wide,
		},
		"binding key":       &catalog.Bind{VHost: "/", Source: "amq.direct", Destination: "q", Key: long},
		"binding arguments": &catalog.Bind{VHost: "/", Source: "amq.direct", Destination: "q", Arguments: wide},
		"address":           &catalog.RegisterNode{ID: "n", Address: strings.Repeat("a", catalog.MaxAddressBytes+1)},
		"client address":    &catalog.RegisterNode{ID: "n", ClientAddress: strings.Repeat("a", catalog.MaxAddressBytes+1)},
		"node id":           &catalog.RegisterNode{ID: id.NodeID(long)},
		"no command":        nil,
	} {
		t.Run(name, func(t *testing.T) {
			c := populated()
			r := c.Apply(9, 0, cmd)
			if r.Err == nil || r.Err.Code != catalog.CodePreconditionFailed {
				t.Fatalf("reply %+v, want PRECONDITION_FAILED", r)
			}
			if c.View().QueueCount() != 1 || c.View().Index() != 9 {
				t.Error("a refused command changed the state")
			}
		})
	}
}
