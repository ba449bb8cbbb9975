package broker

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
)

// behind is the catalog of a node that serves, and whose view is older than it may be.
type behind struct {
	serving.Catalog
	catchUp func() error // brings a newer view, or says why there is none
	asked   int          // how often it was called
	fresh   bool
}

func (c *behind) Serves() bool { return true }
func (c *behind) Fresh() bool  { return c.fresh }

// AwaitFresh returns at once.
func (c *behind) AwaitFresh(context.Context) error {
	c.asked++
	return c.catchUp()
}

// oldAndNewView returns two views: by the first, exchange amq.fanout leads nowhere and there is a queue old; by the second
// there are also a queue q, to which amq.fanout leads, and an exchange later.
func oldAndNewView(t *testing.T) (before, after *catalog.View) {
	t.Helper()
	c := testCatalog(t, "old")
	apply := func(cmd catalog.Command) {
		t.Helper()
		if r := c.Apply(c.View().Index()+1, 1, cmd); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	apply(&catalog.Unbind{VHost: "/", Source: "amq.fanout", Destination: "old"})
	before = c.View()
	apply(&catalog.DeclareQueue{VHost: "/", Name: "q", Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"n"}, Leader: "n"})
	apply(&catalog.DeclareExchange{VHost: "/", Name: "later", Type: catalog.ExchangeFanout, Durable: true})
	apply(&catalog.Bind{VHost: "/", Source: "amq.fanout", Destination: "q"})
	apply(&catalog.Bind{VHost: "/", Source: "later", Destination: "q"})
	return before, c.View()
}

// EX-16: a message that no queue takes by an old view is neither confirmed nor returned for that. It is routed by a newer
// view, or refused while there is none.
func TestPublishByOldView(t *testing.T) {
	fanout := func(p Publish) Publish { p.Exchange = "amq.fanout"; return p }
	later := func(p Publish) Publish { p.Exchange = "later"; return p }
	none := errors.New("no majority")
	bcc := message.Table{{Name: "BCC", Value: message.Array(message.String("q"))}}
	for _, row := range []struct {
		name  string
		p     Publish
		fresh bool  // the view is
		stays error // why no newer view comes
		want  string
		asked int
	}{
		{"a queue made meanwhile", Publish{RoutingKey: "q"}, false, nil, "confirmed 1 []", 1},
		{"a binding made meanwhile", fanout(Publish{}), false, nil, "confirmed 1 []", 1},
		{"an exchange made meanwhile", later(Publish{}), false, nil, "confirmed 1 []", 1},
		{"a queue made meanwhile, by BCC", Publish{RoutingKey: "nix", Message: message.Message{Headers: bcc}}, false, nil, "confirmed 1 []", 1},
		{"mandatory", fanout(Publish{Mandatory: true}), false, nil, "confirmed 1 []", 1},
		{"still no queue", Publish{RoutingKey: "nix"}, false, nil, "confirmed 0 []", 1},
		{"still no queue, mandatory", Publish{RoutingKey: "nix", Mandatory: true}, false, nil, "returned 0 []", 1},
		{"no newer view", Publish{RoutingKey: "q"}, false, none, "rejected 0 [unavailable]", 1},
		{"no newer view, mandatory", fanout(Publish{Mandatory: true}), false, none, "rejected 0 [unavailable]", 1},
		{"no newer view for an exchange", later(Publish{}), false, none, "rejected 0 [unavailable]", 1},
		{"no newer view for a producer", Publish{RoutingKey: "q", Producer: &ProducerID{1}, ProducerSeq: 7}, false, none, "rejected 0 [unknown]", 1},
		{"a fresh view", Publish{RoutingKey: "nix"}, true, nil, "confirmed 0 []", 0},
		{"a queue that the old view has", Publish{RoutingKey: "old"}, false, nil, "confirmed 1 []", 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			before, after := oldAndNewView(t)
			b, view := alone(Config{MaxBodyBytes: 1000}), before
			b.view = func() *catalog.View { return view }
			b.open = func(uid id.QueueUID) (enqueuer, error) {
				if _, is := view.QueueByUID(uid); !is {
					return nil, traffic.ErrNoSuchQueue
				}
				return discarding{}, nil
			}
			c := &behind{fresh: row.fresh}
			c.catchUp = func() error {
				if row.stays == nil {
					view, c.fresh = after, true
				}
				return row.stays
			}
			b.catalog = c
			row.p.VHost = "/"
			r := publish(t, b, &row.p)
			kind := map[ResultKind]string{Confirmed: "confirmed", Returned: "returned", Rejected: "rejected", Invalid: "invalid"}[r.Kind]
			var causes []string
			for _, x := range r.Rejections {
				causes = append(causes, map[RejectionCause]string{CauseUnavailable: "unavailable", CauseUnknown: "unknown"}[x.Cause])
			}
			if got := fmt.Sprint(kind, " ", r.Queues, " ", causes); got != row.want || c.asked != row.asked {
				t.Errorf("%s, asked for a newer view %d times; want %s and %d", got, c.asked, row.want, row.asked)
			}
		})
	}
}
