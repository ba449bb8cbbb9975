package broker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/message"
)

// PUB-9: no queue gets anything before the commit. Then each gets its share at once, in the order
// of the publishes.
func TestUnit(t *testing.T) {
	ends := map[string]*answering{"a": {}, "b": {refuse: fmt.Errorf("%w: x", disk.ErrNoSpace)}, "c": {err: traffic.ErrRefused}}
	b := testBroker(t, func(name string) enqueuer { return ends[name] }, "a", "b", "c")
	var u Unit
	var results []string
	publish := func(exchange, key string) {
		b.Publish(t.Context(), &Publish{VHost: "/", RoutingKey: key, Unit: &u, Message: message.Message{Exchange: exchange, Body: []byte(key)}}, func(r Result) {
			results = append(results, fmt.Sprint(key, " ", r.Kind, " ", r.Queues))
		})
	}
	publish("", "a")
	publish("amq.fanout", "all")
	publish("", "c")
	if len(results) > 0 || len(ends["a"].got) > 0 {
		t.Fatalf("before the commit: %q", results)
	}
	if err := u.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	slices.Sort(results)
	if want := []string{"a 1 1", "all 2 1", "c 2 0"}; !slices.Equal(results, want) {
		t.Errorf("results %q, want %q", results, want)
	}
	for name, want := range map[string][]int{"a": {2}, "b": nil, "c": {2}} {
		if got := ends[name].units; !slices.Equal(got, want) {
			t.Errorf("queue %s got units of %v, want %v", name, got, want)
		}
	}
	if err := u.Commit(t.Context()); err != nil || len(ends["a"].units) != 1 {
		t.Errorf("a second commit: %v, units %v", err, ends["a"].units)
	}
}

func TestUnitIsNotStored(t *testing.T) {
	end := &answering{}
	b := testBroker(t, func(string) enqueuer { return end }, "q")
	for name, row := range map[string]struct {
		body  int
		count int
		end   func(u *Unit) error
		want  string
	}{
		"dropped":   {10, 3, func(u *Unit) error { u.Drop(); return nil }, ""},
		"too large": {1000, gateway.MaxUnitBytes/1000 + 1, func(u *Unit) error { return u.Commit(t.Context()) }, "PRECONDITION_FAILED: transaction: it has "},
	} {
		t.Run(name, func(t *testing.T) {
			var u Unit
			rejected := 0
			for range row.count {
				b.Publish(t.Context(), &Publish{VHost: "/", RoutingKey: "q", Unit: &u, Message: message.Message{Body: make([]byte, row.body)}}, func(r Result) {
					if r.Kind == Rejected && r.Rejections[0].Cause == CauseUnavailable {
						rejected++
					}
				})
			}
			err := row.end(&u)
			var e *failure.Error
			if row.want == "" && err != nil || row.want != "" && (!errors.As(err, &e) || !strings.HasPrefix(err.Error(), row.want)) {
				t.Errorf("error %v, want %q", err, row.want)
			}
			if rejected != row.count || len(end.got) > 0 {
				t.Errorf("%d of %d are rejected, %d are stored", rejected, row.count, len(end.got))
			}
		})
	}
}
