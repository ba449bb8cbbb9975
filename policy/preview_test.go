package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
)

// A preview says for each queue and exchange what a change of a policy does to it (PO-3 to PO-7), and changes nothing.
func TestPreview(t *testing.T) {
	c := catalog.New()
	apply := func(cmd catalog.Command) {
		t.Helper()
		if r := c.Apply(c.View().Index()+1, 0, cmd); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	of := func(name, pattern string, priority int64, key string, value message.Value) catalog.Policy {
		return catalog.Policy{
			VHost: "/", Name: name, Pattern: pattern, ApplyTo: catalog.ApplyToAll, Priority: priority, Definition: message.Table{{Name: key, Value: value}},
		}
	}
	apply(&catalog.RegisterNode{ID: "n", Epoch: 1})
	for i, name := range []string{"a1", "a2", "b"} {
		q := catalog.DeclareQueue{VHost: "/", Name: name, Durable: true, Type: catalog.QueueQuorum, Members: []id.NodeID{"n"}, Leader: "n"}
		if i == 1 {
			q.Arguments = message.Table{{Name: "x-max-length", Value: message.Int64(3)}}
		}
		apply(&q)
	}
	apply(&catalog.DeclareExchange{VHost: "/", Name: "ax", Type: catalog.ExchangeFanout, Durable: true})
	apply(&catalog.PutPolicy{Policy: of("high", "1$", 5, "max-length", message.Int64(9))})
	before := c.View()

	preview := func(cmd catalog.Command, p catalog.Policy, stop bool) string {
		t.Helper()
		trial := catalog.From(before)
		if r := trial.Apply(before.Index(), 0, cmd); r.Err != nil {
			t.Fatal(r.Err)
		}
		x := (&policy.Matcher{}).Preview(before, trial.View(), &p, func() bool { return stop })
		lines := []string{fmt.Sprintf("matched %d, outranked %d, changed %d", x.Matched, x.Outranked, x.Changed)}
		if stop {
			lines = append(lines, fmt.Sprintf("looked %d", x.Looked))
		}
		for _, thing := range x.Things {
			line := thing.Kind + " " + thing.Name
			if thing.Outranked {
				line += " (" + thing.After + ")"
			}
			for _, s := range thing.Settings {
				line += fmt.Sprintf(" %s %s→%s", s.Arg, s.Before, s.After)
			}
			lines = append(lines, line)
		}
		return strings.Join(lines, "; ")
	}
	put := func(p catalog.Policy) string { return preview(&catalog.PutPolicy{Policy: p}, p, false) }

	operator := of("o", "^a", 0, "max-length", message.Int64(4))
	operator.Operator = true
	high := of("high", "1$", 5, "max-length", message.Int64(9))
	for _, x := range []struct{ got, want string }{
		{put(of("new", "^a", 0, "max-length", message.Int64(7))), "matched 2, outranked 1, changed 0; queue a1 (high); queue a2"},
		{put(of("new", "^a", 9, "max-length", message.Int64(2))), "matched 2, outranked 0, changed 2; queue a1 x-max-length 9→2; queue a2 x-max-length 3→2"},
		{put(of("new", "^b$", 0, "expires", message.Int64(8))), "matched 1, outranked 0, changed 1; queue b x-expires null→8"},
		{put(of("new", "^ax", 0, "alternate-exchange", message.String("y"))), `matched 1, outranked 0, changed 1; exchange ax alternate-exchange null→"y"`},
		{put(of("high", "2$", 5, "max-length", message.Int64(1))), "matched 1, outranked 0, changed 2; queue a1 x-max-length 9→null; queue a2 x-max-length 3→1"},
		{put(operator), "matched 2, outranked 0, changed 1; queue a1 x-max-length 9→4; queue a2"},
		{preview(&catalog.DeletePolicy{VHost: "/", Name: "high"}, high, false), "matched 1, outranked 0, changed 1; queue a1 x-max-length 9→null"},
		{preview(&catalog.DeletePolicy{VHost: "/", Name: "high"}, high, true), "matched 0, outranked 0, changed 0; looked 0"},
	} {
		if x.got != x.want {
			t.Errorf("got  %s\nwant %s", x.got, x.want)
		}
	}
}
