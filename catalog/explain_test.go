package catalog_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
)

// explained has queues a to d behind some exchanges.
func explained(t *testing.T, commands ...catalog.Command) *catalog.View {
	t.Helper()
	c := catalog.New()
	all := []catalog.Command{&catalog.RegisterNode{ID: "n", Epoch: 1}}
	for _, name := range []string{"a", "b", "c", "d"} {
		all = append(all, &catalog.DeclareQueue{
			VHost: "/", Name: name, Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"n"}, Leader: "n",
		})
	}
	for i, cmd := range append(all, commands...) {
		if r := c.Apply(uint64(i+1), 0, cmd); r.Err != nil {
			t.Fatalf("%T: %v", cmd, r.Err)
		}
	}
	return c.View()
}

func bind(source, queue, key string, args ...message.Field) catalog.Command {
	return &catalog.Bind{VHost: "/", Source: source, Destination: queue, Key: key, Arguments: args}
}

func exchange(name string, kind catalog.ExchangeType, args ...message.Field) catalog.Command {
	return &catalog.DeclareExchange{VHost: "/", Name: name, Type: kind, Arguments: args}
}

func chain(source, destination, key string) catalog.Command {
	return &catalog.Bind{VHost: "/", Source: source, Destination: destination, DestinationKind: catalog.ToExchange, Key: key}
}

// render writes an explanation as text.
func render(e *catalog.Explanation, queues ...string) string {
	var b strings.Builder
	for i, s := range e.Steps {
		fmt.Fprintf(&b, "%d %q from %d", i, s.Name, s.From)
		if s.Exchange == nil {
			b.WriteString(" missing")
		}
		if s.Binding != nil {
			fmt.Fprintf(&b, " by %q", s.Binding.Key)
		}
		for _, t := range s.Taken {
			fmt.Fprintf(&b, "; takes %s %q", t.Destination, t.Key)
		}
		for _, m := range s.Misses {
			fmt.Fprintf(&b, "; not %s: %s", m.Binding.Destination, m.Why)
		}
		b.WriteString("\n")
	}
	for _, q := range queues {
		fmt.Fprintf(&b, "%s:", q)
		for _, p := range e.Path(q) {
			fmt.Fprintf(&b, " %s→%s", p.Source, p.Destination)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// G-20: which queues, by which bindings, and what came nearest of the others.
func TestExplain(t *testing.T) {
	v := explained(t,
		exchange("t", catalog.ExchangeTopic), exchange("d", catalog.ExchangeDirect), exchange("h", catalog.ExchangeHeaders),
		exchange("m", catalog.ExchangeModulusHash),
		exchange("x", catalog.ExchangeDirect, message.Field{Name: "alternate-exchange", Value: message.String("f")}),
		exchange("y", catalog.ExchangeDirect, message.Field{Name: "alternate-exchange", Value: message.String("gone")}),
		exchange("f", catalog.ExchangeFanout),
		bind("t", "a", "order.*.eu"), bind("t", "b", "order.new.us"), bind("t", "c", "order.#.new"), bind("t", "d", "order.new.eu.big"),
		chain("t", "d", "order.#"), bind("d", "b", "order.new.eu"), bind("d", "c", "Order.new.eu"), bind("d", "d", "x"),
		bind("h", "a", "", message.Field{Name: "kind", Value: message.String("order")}, message.Field{Name: "n", Value: message.Int64(1)}),
		bind("h", "b", "", message.Field{Name: "none", Value: message.Null()}, message.Field{Name: "x-match", Value: message.String("any")}),
		bind("h", "c", "", message.Field{Name: "kind", Value: message.String("order")}),
		bind("m", "a", ""), bind("m", "b", ""),
		bind("x", "a", "k"), bind("f", "d", ""),
	)
	for _, c := range []struct {
		exchange, key, want string
		queues              []string
	}{
		{"", "c", "0 \"\" from -1; takes c \"c\"\nc: →c\n", []string{"c"}},
		{"", "nobody", "0 \"\" from -1\n", nil},
		{
			"t", "order.new.eu", `0 "t" from -1; takes a "order.*.eu"; takes d "order.#"; not d: "order.new.eu.big" asks for more words than "order.new.eu" has; ` +
				`not b: word 3 of "order.new.us" is "us", in "order.new.eu" it is "eu"; not c: what follows # in "order.#.new" is not at the end of "order.new.eu"
1 "d" from 0 by "order.#"; takes b "order.new.eu"; not c: its key "Order.new.eu" differs from "order.new.eu" in upper and lower case; not d: its key "x" is none of the message's
a: t→a
b: t→d d→b
d:
`, []string{"a", "b", "d"},
		},
		{
			"h", "", `0 "h" from -1; takes c ""; not a: header "n" is "1", not 1 (string against int64); not b: header "none" is missing
`, nil,
		},
		{"x", "j", "0 \"x\" from -1; not a: its key \"k\" is none of the message's\n1 \"f\" from 0; takes d \"\"\nd: f→d\n", []string{"d"}},
		{"y", "j", "0 \"y\" from -1\n1 \"gone\" from 0 missing\n", nil},
	} {
		headers := message.Table{{Name: "kind", Value: message.String("order")}, {Name: "n", Value: message.String("1")}}
		e, err := v.Explain("/", c.exchange, &catalog.Publication{Keys: []string{c.key}, Headers: headers})
		if err != nil {
			t.Fatal(err)
		}
		if got := render(&e, c.queues...); got != c.want {
			t.Errorf("%s %q:\n%s\nwant\n%s", c.exchange, c.key, got, c.want)
		}
	}
	e, err := v.Explain("/", "m", &catalog.Publication{Keys: []string{"k"}})
	if err != nil || len(e.Queues) != 1 || len(e.Steps[0].Taken) != 1 || e.Steps[0].MissCount != 1 {
		t.Errorf("of a hash: %+v, %v", e, err)
	}
	if _, err := v.Explain("/", "nowhere", &catalog.Publication{}); err == nil {
		t.Error("an exchange that does not exist is explained")
	}
}

// An explanation names the queues that Route finds, whatever the topology: each has a path,
// and the other bindings to queues are misses.
func TestExplainIsRoute(t *testing.T) {
	words := []string{"a", "b", "*", "#"}
	types := []catalog.ExchangeType{
		catalog.ExchangeDirect, catalog.ExchangeFanout, catalog.ExchangeTopic, catalog.ExchangeHeaders, catalog.ExchangeModulusHash,
		catalog.ExchangeRandom, catalog.ExchangeConsistentHash,
	}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		key := func() string { return words[rng.IntN(4)] + "." + words[rng.IntN(4)] }
		var commands []catalog.Command
		kinds := map[string]catalog.ExchangeType{}
		for _, x := range []string{"e0", "e1", "e2"} {
			kinds[x] = types[rng.IntN(len(types))]
			var args []message.Field
			if rng.IntN(2) == 0 {
				args = append(args, message.Field{Name: "alternate-exchange", Value: message.String([]string{"e0", "e1", "e3"}[rng.IntN(3)])})
			}
			commands = append(commands, exchange(x, kinds[x], args...))
		}
		for range rng.IntN(14) {
			x := []string{"e0", "e1", "e2"}[rng.IntN(3)]
			k := key()
			if kinds[x] == catalog.ExchangeConsistentHash {
				k = "1"
			}
			if rng.IntN(4) == 0 {
				commands = append(commands, chain(x, []string{"e0", "e1", "e2"}[rng.IntN(3)], k))
				continue
			}
			commands = append(commands, bind(x, string('a'+byte(rng.IntN(4))), k,
				message.Field{Name: words[rng.IntN(2)], Value: message.Int64(rng.Int64N(2))}))
		}
		v := explained(t, commands...)
		p := &catalog.Publication{
			Keys: []string{"a.b", "b.a"}[:1+rng.IntN(2)], Headers: message.Table{{Name: "a", Value: message.Int64(1)}}, Chance: rng.Uint64(),
		}
		want, err := v.Route("/", "e0", p, nil)
		if err != nil {
			t.Fatal(err)
		}
		e, err := v.Explain("/", "e0", p)
		if err != nil || !slices.Equal(e.Queues, want) {
			t.Fatalf("seed %d: %v, %v, Route says %v", seed, e.Queues, err, want)
		}
		for q := range v.Queues() {
			path := e.Path(q.Name)
			if (len(path) > 0) != slices.Contains(want, q.UID) {
				t.Fatalf("seed %d: queue %s has path %v, routed to %v\n%s", seed, q.Name, path, want, render(&e))
			}
		}
		for i, s := range e.Steps {
			n := 0
			for range v.BindingsFrom("/", s.Name) {
				n++
			}
			if s.Exchange != nil && len(s.Taken)+s.MissCount != n || s.From >= i {
				t.Fatalf("seed %d: %s has %d bindings\n%s", seed, s.Name, n, render(&e))
			}
		}
	}
}
