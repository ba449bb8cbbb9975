package stats

import (
	"testing"
	"time"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/id"
)

// Each node counts what its clients publish to an exchange. A node that was away, that has restarted, or an exchange that was
// declared again is no spike; an exchange that was not used before begins at 0.
func TestRatesOfExchanges(t *testing.T) {
	count := func(node, name string, in, out uint64) broker.ExchangeCounts {
		return broker.ExchangeCounts{Node: id.NodeID(node), VHost: "/", Name: name, In: in, Out: out}
	}
	of := func(e *Exchanges, name string) Exchange {
		if x := e.Of[ExchangeName{"/", name}]; x != nil {
			return *x
		}
		return Exchange{}
	}
	at := time.Now()
	first := newExchanges(nil, []broker.ExchangeCounts{count("a", "x", 10, 20), count("b", "x", 100, 0), count("b", "y", 50, 50)}, at, []string{"c"})
	if got := of(first, "x"); got != (Exchange{In: 110, Out: 20}) {
		t.Errorf("%+v", got)
	}
	second := newExchanges(first, []broker.ExchangeCounts{
		count("a", "x", 20, 60), count("b", "x", 104, 0), count("b", "y", 3, 60), count("c", "x", 1000, 1000), count("a", "new", 8, 2),
	}, at.Add(2*time.Second), nil)
	for name, want := range map[string]Exchange{
		"x": {In: 1124, Out: 1060, InRate: 7, OutRate: 20}, "y": {In: 3, Out: 60}, "new": {In: 8, Out: 2, InRate: 4, OutRate: 1}, "none": {},
	} {
		if got := of(second, name); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	late := newExchanges(second, []broker.ExchangeCounts{count("a", "x", 5000, 5000)}, at.Add(3*time.Second+RateWithin), nil)
	if got := of(late, "x"); got != (Exchange{In: 5000, Out: 5000}) {
		t.Errorf("%+v", got)
	}
}
