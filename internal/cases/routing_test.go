package cases

import (
	"errors"
	"fmt"
	"testing"

	"github.com/quorate/quorate/client"
)

// EX-2, EX-3.
func TestT011(t *testing.T) {
	k := begin(t, "the default exchange and amq.* cannot be changed")
	q := k.queue("q", nil)
	refused := func(what string, err error) { k.Helper(); k.class(what, err, client.AccessRefused) }
	refused("bind", k.client.Bind(k.ctx, client.Binding{Destination: q, RoutingKey: "x"}))
	refused("unbind", k.client.Unbind(k.ctx, client.Binding{Destination: q, RoutingKey: q}))
	_, err := k.client.DeclareExchange(k.ctx, client.Exchange{Name: "", Type: "direct"})
	refused("declare default", err)
	refused("delete default", k.client.DeleteExchange(k.ctx, "", "", false))
	refused("delete amq.direct", k.client.DeleteExchange(k.ctx, "", "amq.direct", false))
	_, err = k.client.DeclareExchange(k.ctx, client.Exchange{Name: "amq.zz", Type: "direct"})
	refused("declare amq.zz", err)
}

// EX-5.
func TestT012(t *testing.T) {
	k := begin(t, "an exchange is declared again only as it is")
	x := k.exchange("x", "direct", client.Exchange{})
	declare := func(e client.Exchange) error {
		e.Name = x
		_, err := k.client.DeclareExchange(k.ctx, e)
		return err
	}
	k.class("as fanout", declare(client.Exchange{Type: "fanout"}), client.PreconditionFailed)
	k.class("auto-delete", declare(client.Exchange{Type: "direct", AutoDelete: true}), client.PreconditionFailed)
	k.must(declare(client.Exchange{Type: "direct", Arguments: args{"x-foo": "bar"}}))
	k.class("alternate", declare(client.Exchange{Type: "direct", Arguments: args{"alternate-exchange": "e"}}), client.PreconditionFailed)
}

// EX-4.
func TestT013(t *testing.T) {
	k := begin(t, "an internal exchange takes dead letters, not publishes")
	i := k.exchange("i", "fanout", client.Exchange{Internal: true})
	q := k.queue("q", nil)
	k.bind(i, q, "")
	s := k.queue("s", args{"x-dead-letter-exchange": i})
	_, err := k.try("", "m", via(i))
	k.class("publish", err, client.AccessRefused)
	k.publish(s, "dead")
	k.settle(k.get(s, false), reject)
	k.same("dead letter", k.bodies(q, 1), []string{"dead"})
}

// EX-6.
func TestT014(t *testing.T) {
	k := begin(t, "an auto-delete exchange goes with its last binding, not before the first")
	x := k.exchange("x", "fanout", client.Exchange{AutoDelete: true})
	q := k.queue("q", nil)
	passive := func() error {
		_, err := k.client.DeclareExchange(k.ctx, client.Exchange{Name: x, Passive: true})
		return err
	}
	k.must(passive())
	k.bind(x, q, "")
	k.must(k.client.Unbind(k.ctx, client.Binding{Source: x, Destination: q}))
	k.class("passive declare", passive(), client.NotFound)
}

// EX-8.
func TestT015(t *testing.T) {
	k := begin(t, "topic patterns")
	x := k.exchange("x", "topic", client.Exchange{})
	tests := []struct {
		pattern, key string
		want         bool
	}{
		{"#", "", true},
		{"*", "", false},
		{"a.#", "a", true},
		{"*.z", "z", false},
		{"a.*.c", "a..c", true},
		{"*.*.*", "..", true},
		{"a*", "ab", false},
		{"*.#", "", false},
	}
	for i, test := range tests {
		q := k.queue(fmt.Sprint("q", i), nil)
		k.bind(x, q, test.pattern)
		_, err := k.try(test.key, "m", via(x), func(m *client.Message) { m.Mandatory = true })
		_ = err // others may be bound by then: counted below
		got := k.stats(q).MessagesReady == 1
		if got != test.want {
			k.Errorf("pattern %q, key %q: routed %v, want %v", test.pattern, test.key, got, test.want)
		}
	}
}

// EX-9.
func TestT017(t *testing.T) {
	k := begin(t, "x-match must be one of its words")
	q := k.queue("q", nil)
	for _, bad := range []any{"bogus", int64(1)} {
		err := k.client.Bind(k.ctx, client.Binding{Source: "amq.headers", Destination: q, Arguments: args{"x-match": bad}})
		k.class(fmt.Sprint(bad), err, client.PreconditionFailed)
	}
}

// EX-11.
func TestT018(t *testing.T) {
	k := begin(t, "exchanges bound in a circle deliver once")
	a, b := k.exchange("a", "fanout", client.Exchange{}), k.exchange("b", "fanout", client.Exchange{})
	q := k.queue("q", nil)
	k.bind(a, b, "", toExchange)
	k.bind(b, a, "", toExchange)
	k.bind(a, q, "")
	k.bind(b, q, "")
	_, err := k.try("", "m", via(a))
	k.must(err)
	m := k.get(q, true)
	k.same("exchange", m.Exchange, a)
	k.same("left", m.Ready, 0)
}

// EX-11, PUB-2.
func TestT019(t *testing.T) {
	k := begin(t, "several ways to a queue make one copy")
	x := k.exchange("x", "topic", client.Exchange{})
	q, q2 := k.queue("q", nil), k.queue("q2", nil)
	k.bind(x, q, "a.*")
	k.bind(x, q, "#")
	_, err := k.try("a.b", "m", via(x))
	k.must(err)
	k.same("by two bindings", k.stats(q).MessagesReady, 1)
	_, err = k.try(q, "m", headers(client.Table{"CC": []any{q, q2}}))
	k.must(err)
	k.same("by key and CC", k.stats(q).MessagesReady, 2)
	k.same("by CC", k.stats(q2).MessagesReady, 1)
}

// EX-12.
func TestT020(t *testing.T) {
	k := begin(t, "an alternate exchange takes what has no route")
	e := k.exchange("e", "fanout", client.Exchange{})
	m := k.exchange("m", "direct", client.Exchange{Arguments: args{"alternate-exchange": e}})
	lost := k.exchange("lost", "direct", client.Exchange{Arguments: args{"alternate-exchange": k.name("missing")}})
	q := k.queue("q2", nil)
	k.bind(e, q, "")
	mandatory := func(m *client.Message) { m.Mandatory = true }
	_, err := k.try("nowhere", "m", via(m), mandatory)
	k.must(err)
	k.same("exchange", k.get(q, true).Exchange, m)
	k.must(k.client.Unbind(k.ctx, client.Binding{Source: e, Destination: q}))
	for _, x := range []string{m, lost} {
		_, err = k.try("nowhere", "m", via(x), mandatory)
		var not *client.NotConfirmedError
		if !errors.As(err, &not) || not.Result.Outcome != client.Returned {
			k.Errorf("via %s: %v, want returned", x, err)
		}
	}
}

// EX-13, EX-6.
func TestT021(t *testing.T) {
	k := begin(t, "taking away what is not there is no error")
	q, x := k.queue("q", nil), k.exchange("x", "direct", client.Exchange{})
	k.must(k.client.Unbind(k.ctx, client.Binding{Source: x, Destination: q, RoutingKey: "no"}))
	k.must(k.client.Unbind(k.ctx, client.Binding{Source: x, Destination: k.name("missing"), RoutingKey: "no"}))
	k.class("bind", k.client.Bind(k.ctx, client.Binding{Source: x, Destination: k.name("missing")}), client.NotFound)
	k.must(k.client.DeleteExchange(k.ctx, "", k.name("missing"), false))
}
