package clients

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/catalog"
)

// exchangesTest is a catalog with the counts of its exchanges.
type exchangesTest struct {
	t *testing.T
	c *catalog.Catalog
	r *Registry
}

func (x *exchangesTest) apply(cmd catalog.Command) {
	x.t.Helper()
	if r := x.c.Apply(x.c.View().Index()+1, 1, cmd); r.Err != nil {
		x.t.Fatal(r.Err)
	}
}

// publish counts a message to an exchange.
func (x *exchangesTest) publish(exchange string, queues int) {
	x.t.Helper()
	rec, there := x.c.View().Exchange(catalog.DefaultVHost, exchange)
	if !there {
		x.t.Fatal(exchange)
	}
	x.r.ExchangeCounts(rec, x.c.View).Add(queues)
}

// counts are the figures by the names of the exchanges.
func (x *exchangesTest) counts() map[string][2]uint64 {
	out := map[string][2]uint64{}
	for _, f := range x.r.ExchangeFigures(x.c.View) {
		out[f.Name] = [2]uint64{f.In, f.Out}
	}
	return out
}

// An exchange is counted for as long as it exists, through changes of its bindings; one that is declared again starts
// over.
func TestExchangeCounts(t *testing.T) {
	x := &exchangesTest{t: t, c: catalog.New(), r: New()}
	declare := &catalog.DeclareExchange{VHost: catalog.DefaultVHost, Name: "x", Type: catalog.ExchangeFanout, Durable: true}
	x.apply(declare)
	x.publish("x", 2)
	x.publish("", 1)
	x.publish("amq.topic", 0)
	x.apply(&catalog.Bind{VHost: catalog.DefaultVHost, Source: "x", Destination: "amq.direct", DestinationKind: catalog.ToExchange})
	x.publish("x", 3)
	if got, want := fmt.Sprint(x.counts()), "map[:[1 1] amq.topic:[1 0] x:[2 5]]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	x.apply(&catalog.DeleteExchange{VHost: catalog.DefaultVHost, Name: "x"})
	if _, still := x.counts()["x"]; still {
		t.Error("a deleted exchange is counted")
	}
	x.apply(declare)
	x.publish("x", 1)
	if got := x.counts()["x"]; got != [2]uint64{1, 1} {
		t.Errorf("%v", got)
	}
}

// A snapshot that takes the place of the catalog does not begin the counts anew, except for an exchange that is
// another one by now.
func TestExchangeCountsThroughSnapshot(t *testing.T) {
	x := &exchangesTest{t: t, c: catalog.New(), r: New()}
	declare := func(c *catalog.Catalog, name string, kind catalog.ExchangeType) {
		r := c.Apply(c.View().Index()+1, 1, &catalog.DeclareExchange{VHost: catalog.DefaultVHost, Name: name, Type: kind, Durable: true})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	declare(x.c, "x", catalog.ExchangeFanout)
	declare(x.c, "y", catalog.ExchangeFanout)
	for _, name := range []string{"", "x", "y"} {
		x.publish(name, 2)
	}
	leader := catalog.New()
	if err := leader.Restore(x.c.AppendSnapshot(nil)); err != nil {
		t.Fatal(err)
	}
	if r := leader.Apply(leader.View().Index()+1, 1, &catalog.DeleteExchange{VHost: catalog.DefaultVHost, Name: "y"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	declare(leader, "y", catalog.ExchangeDirect)
	declare(leader, "z", catalog.ExchangeDirect)
	if err := x.c.Restore(leader.AppendSnapshot(nil)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "x", "y", "z"} {
		x.publish(name, 1)
	}
	if got, want := fmt.Sprint(x.counts()), "map[:[2 3] x:[2 3] y:[1 1] z:[1 1]]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Exchanges that come and go leave nothing behind, though nobody asks for figures.
func TestExchangeCountsAreDropped(t *testing.T) {
	x := &exchangesTest{t: t, c: catalog.New(), r: New()}
	x.publish("", 1)
	for i := range 2*dropEvery + 1 {
		name := fmt.Sprint("x", i)
		x.apply(&catalog.DeclareExchange{VHost: catalog.DefaultVHost, Name: name, Type: catalog.ExchangeFanout})
		x.publish(name, 1)
		x.apply(&catalog.DeleteExchange{VHost: catalog.DefaultVHost, Name: name})
	}
	kept := 0
	x.r.byExchange.Range(func(any, any) bool { kept++; return true })
	if kept > dropEvery+1 || x.counts()[""] != [2]uint64{1, 1} {
		t.Errorf("%d are kept; %v", kept, x.counts())
	}
}
