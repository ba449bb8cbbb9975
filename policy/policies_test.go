package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
)

// definition makes a table of names and values.
func definition(pairs ...any) message.Table { return table(pairs...) }

// a declare of a stream is refused with what there is in its place.
func TestStream(t *testing.T) {
	_, err := argument.Resolve(table("x-queue-type", "stream"), false)
	if err == nil || !strings.Contains(err.Error(), "there are no streams: declare a quorum queue") {
		t.Errorf("%v", err)
	}
}

// maxFaultText bounds what is said of one fault, in bytes: imports list one in each row.
const maxFaultText = 160

func TestCheckPolicy(t *testing.T) {
	for _, c := range []struct {
		name     string
		policy   catalog.Policy
		operator bool
		want     []string // parts of the error; none: accepted
	}{
		{"all keys of users", catalog.Policy{Pattern: "^(?!amq).*", Definition: definition(
			"alternate-exchange", "ae", "dead-letter-exchange", "dlx", "dead-letter-routing-key", "k",
			"dead-letter-strategy", "at-most-once", "message-ttl", 5, "max-length", 5, "max-length-bytes", 5,
			"overflow", "drop-head", "delivery-limit", -1, "consumer-disconnected-timeout", 5,
			"dead-letter-backlog-limit", 5, "dead-letter-on-switch", "drain", "on-delete", "dead-letter", "dead-letter-cycle", "allow", "dead-letter-max-hops", 5,
			"queue-leader-locator", "balanced", "max-in-memory-length", 5, "max-in-memory-bytes", 5,
		)}, false, nil},
		{"PO-2: a routing key alone", catalog.Policy{Definition: definition("dead-letter-routing-key", "k")}, false, nil},
		{"PO-2: a strategy alone", catalog.Policy{Definition: definition("dead-letter-strategy", "at-least-once")}, false, nil},
		{"keys of operators", catalog.Policy{Definition: definition("message-ttl", 5, "delivery-limit", 3, "overflow", "drop-head")}, true, nil},
		{"PO-1: pattern", catalog.Policy{Pattern: "(", Definition: definition("max-length", 5)}, false, []string{"pattern", `"("`}},
		{"PO-1: unknown key", catalog.Policy{Definition: definition("maximum-length", 5)}, false, []string{`maximum-length = 5: is no policy key; did you mean "max-length"?`}},
		{"PO-1: a key like no other", catalog.Policy{Definition: definition("ha-mode", "all")}, false, []string{"ha-mode = ", "is no policy key; rule PO-2 of docs/semantics.md lists them"}},
		{"PO-5: nearest of operators'", catalog.Policy{Definition: definition("delivery-limits", 5)}, true, []string{`did you mean "delivery-limit"?`}},
		{"PO-2: not for policies", catalog.Policy{Definition: definition("queue-type", "quorum")}, false, []string{"queue-type"}},
		{"PO-1: twice", catalog.Policy{Definition: append(definition("max-length", 5), definition("max-length", 6)...)}, false, []string{"max-length", "twice"}},
		{"PO-1: range", catalog.Policy{Definition: definition("max-length", -1)}, false, []string{"argument max-length = -1"}},
		{"PO-2: range of times", catalog.Policy{Definition: definition("message-ttl", 315_360_000_001)}, false, []string{"message-ttl"}},
		{"PO-2: type", catalog.Policy{Definition: definition("max-length", "5")}, false, []string{"max-length", "integer"}},
		{"PO-2: alternate exchange", catalog.Policy{Definition: definition("alternate-exchange", 5)}, false, []string{"alternate-exchange"}},
		{"all faults at once", catalog.Policy{Pattern: "[", Definition: definition("a", 5, "overflow", "x")}, false, []string{`"["`, "a = 5", "overflow"}},
		{"PO-5: not for operators", catalog.Policy{Definition: definition("dead-letter-exchange", "x")}, true, []string{"dead-letter-exchange", "operator"}},
		{"PO-5: not for operators", catalog.Policy{Definition: definition("dead-letter-max-hops", 3)}, true, []string{"dead-letter-max-hops", "operator"}},
		{"PO-5: not for operators", catalog.Policy{Definition: definition("alternate-exchange", "x")}, true, []string{"alternate-exchange", "operator"}},
		{"PO-2: delayed retry", catalog.Policy{Definition: definition("delayed-retry-type", "all")}, false, []string{"delayed-retry-min"}},
		{"PO-2: delayed retry", catalog.Policy{Definition: definition("delayed-retry-min", 5, "delayed-retry-max", 4)}, false, []string{"delayed-retry-max"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.policy.Operator = c.operator
			err := policy.Check(&c.policy)
			if (err == nil) != (len(c.want) == 0) {
				t.Fatalf("error %v, want %q", err, c.want)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
			if err != nil && len(err.Error()) > len(c.want)*maxFaultText {
				t.Errorf("error %q has %d bytes", err, len(err.Error()))
			}
			if err != nil && strings.Contains(err.Error(), " x-") {
				t.Errorf("error %q names arguments", err)
			}
		})
	}
}

func TestMerge(t *testing.T) {
	for _, c := range []struct {
		name           string
		argument       message.Table
		user, operator message.Table
		want           message.Table
	}{
		{"PO-7: lower", definition("x-max-length", 5), definition("max-length", 3), nil, definition("x-max-length", 3)},
		{"PO-7: lower", definition("x-max-length", 2), definition("max-length", 3), nil, definition("x-max-length", 2)},
		{"PO-6: lower", nil, definition("max-length", 3), definition("max-length", 2), definition("x-max-length", 2)},
		{"PO-7: argument before policy", definition("x-dead-letter-exchange", "a"), definition("dead-letter-exchange", "p"), nil, definition("x-dead-letter-exchange", "a")},
		{"PO-6: operator's overflow", definition("x-overflow", "drop-head"), definition("overflow", "reject-publish"), definition("overflow", "reject-publish-dlx"), definition("x-overflow", "reject-publish-dlx")},
		{"D-3: argument's overflow", definition("x-overflow", "drop-head"), definition("overflow", "reject-publish"), nil, definition("x-overflow", "drop-head")},
		{"Q-11: a limit before none", definition("x-delivery-limit", -1), definition("delivery-limit", 7), nil, definition("x-delivery-limit", 7)},
		{"Q-11: the lower one", definition("x-delivery-limit", 3), definition("delivery-limit", 7), definition("delivery-limit", 5), definition("x-delivery-limit", 3)},
		{"Q-11: none at all", definition("x-delivery-limit", -1), definition("delivery-limit", -5), nil, definition("x-delivery-limit", -1)},
		{"Q-12: lowest delay", definition("x-delayed-retry-min", 5), definition("delayed-retry-min", 3), definition("delayed-retry-min", 4), definition("x-delayed-retry-min", 4)},
		{"Q-12: highest delay", definition("x-delayed-retry-min", 5, "x-delayed-retry-max", 9), nil, definition("delayed-retry-max", 4), definition("x-delayed-retry-min", 5, "x-delayed-retry-max", 5)},
		{"PO-6: target size", definition("x-quorum-target-group-size", 1), definition("target-group-size", 3), definition("target-group-size", 5), definition("x-quorum-target-group-size", 5)},
		{"target size without operator", definition("x-quorum-target-group-size", 1), definition("target-group-size", 3), nil, definition("x-quorum-target-group-size", 1)},
		{"a routing key without exchange", nil, definition("dead-letter-routing-key", "k"), nil, nil},
		{"a routing key for the argument's exchange", definition("x-dead-letter-exchange", "a"), definition("dead-letter-routing-key", "k"), nil, definition("x-dead-letter-exchange", "a", "x-dead-letter-routing-key", "k")},
		{"what policies know nothing of", definition("x-queue-type", "quorum", "x-foo", 1), definition("max-length", 3), nil, definition("x-queue-type", "quorum", "x-foo", 1, "x-max-length", 3)},
	} {
		t.Run(c.name, func(t *testing.T) {
			made := func(d message.Table) *catalog.Policy {
				if d == nil {
					return nil
				}
				return &catalog.Policy{Definition: d}
			}
			declared := c.argument.String()
			if got := policy.Merge(c.argument, made(c.user), made(c.operator)); !got.EqualClass(c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if c.argument.String() != declared {
				t.Errorf("the declared arguments were changed to %v", c.argument)
			}
		})
	}
}

// vhostPolicies is a catalog with the policies of the test.
func vhostPolicies(t testing.TB, merge bool, policies ...catalog.Policy) *catalog.View {
	t.Helper()
	c := catalog.New()
	apply := func(cmd catalog.Command) {
		if r := c.Apply(c.View().Index()+1, 0, cmd); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	apply(&catalog.PutVHost{VHost: catalog.VHost{
		Name: "/", DefaultQueueType: catalog.QueueQuorum, MergePolicies: merge,
		VHostLimits: catalog.NoVHostLimits(),
	}})
	for _, p := range policies {
		if p.VHost = "/"; p.ApplyTo == "" {
			p.ApplyTo = catalog.ApplyToAll
		}
		apply(&catalog.PutPolicy{Policy: p})
	}
	return c.View()
}

func TestMatcherFinds(t *testing.T) {
	low, high := definition("max-length", 1), definition("max-length", 2)
	ttl := definition("message-ttl", 3)
	ae := definition("alternate-exchange", "ae")
	for _, c := range []struct {
		name     string
		merge    bool
		policies []catalog.Policy
		queue    string
		kind     catalog.QueueType
		user     string
		operator string
	}{
		{"PO-3: priority", false, []catalog.Policy{
			{Name: "a", Pattern: "q", Definition: low}, {Name: "b", Pattern: "q", Priority: 1, Definition: high},
		}, "q", catalog.QueueQuorum, "b", ""},
		{"PO-3: equal priorities, by name", false, []catalog.Policy{
			{Name: "b", Pattern: "q", Definition: high}, {Name: "a", Pattern: "q", Definition: low},
		}, "q", catalog.QueueQuorum, "a", ""},
		{"PO-1: negative priority", false, []catalog.Policy{{Name: "a", Pattern: "q", Priority: -5, Definition: low}}, "q", catalog.QueueQuorum, "a", ""},
		{"PO-1: anywhere in the name", false, []catalog.Policy{{Name: "a", Pattern: "rde", Definition: low}}, "orders", catalog.QueueQuorum, "a", ""},
		{"no match", false, []catalog.Policy{{Name: "a", Pattern: "^x", Definition: low}}, "orders", catalog.QueueQuorum, "", ""},
		{"operators by themselves", false, []catalog.Policy{
			{Name: "a", Pattern: "q", Definition: low}, {Name: "o", Pattern: "q", Operator: true, Definition: high},
		}, "q", catalog.QueueQuorum, "a", "o"},
		{"PO-4: not for queues", false, []catalog.Policy{
			{Name: "a", Pattern: "q", Priority: 9, Definition: ae}, {Name: "b", Pattern: "q", Definition: low},
		}, "q", catalog.QueueQuorum, "b", ""},
		{"PO-1: apply-to", false, []catalog.Policy{
			{Name: "a", Pattern: "q", Priority: 9, Definition: low, ApplyTo: catalog.ApplyToClassicQueues},
			{Name: "b", Pattern: "q", Priority: 8, Definition: low, ApplyTo: catalog.ApplyToExchanges},
			{Name: "c", Pattern: "q", Priority: 7, Definition: low, ApplyTo: catalog.ApplyToQuorumQueues},
		}, "q", catalog.QueueQuorum, "c", ""},
		{"PO-1: apply-to", false, []catalog.Policy{
			{Name: "a", Pattern: "q", Priority: 9, Definition: low, ApplyTo: catalog.ApplyToQuorumQueues},
			{Name: "b", Pattern: "q", Priority: 8, Definition: low, ApplyTo: catalog.ApplyToQueues},
		}, "q", catalog.QueueClassic, "b", ""},
		{"merged", true, []catalog.Policy{
			{Name: "a", Pattern: "q", Definition: ttl}, {Name: "b", Pattern: "q", Priority: 1, Definition: high},
		}, "q", catalog.QueueQuorum, "b + a", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var matcher policy.Matcher
			v := vhostPolicies(t, c.merge, c.policies...)
			user, operator := matcher.Queue(v, &catalog.QueueRecord{VHost: "/", Name: c.queue, Type: c.kind})
			if name(user) != c.user || name(operator) != c.operator {
				t.Errorf("got %q and %q, want %q and %q", name(user), name(operator), c.user, c.operator)
			}
		})
	}
}

func name(p *catalog.Policy) string {
	if p == nil {
		return ""
	}
	return p.Name
}

// EX-12: the argument, else the policy; the default exchange has none.
func TestAlternateExchange(t *testing.T) {
	var matcher policy.Matcher
	v := vhostPolicies(t, false,
		catalog.Policy{Name: "a", Pattern: "^x", Definition: definition("alternate-exchange", "by-policy")},
		catalog.Policy{Name: "b", Pattern: "", Priority: 9, Definition: definition("max-length", 5)},
	)
	for _, c := range []struct {
		exchange catalog.Exchange
		want     string
	}{
		{catalog.Exchange{VHost: "/", Name: "x"}, "by-policy"},
		{catalog.Exchange{VHost: "/", Name: "x", Arguments: definition("alternate-exchange", "own")}, "own"},
		{catalog.Exchange{VHost: "/", Name: "y"}, ""},
		{catalog.Exchange{VHost: "/", Name: ""}, ""},
	} {
		if got, _ := matcher.AlternateExchange(v, &c.exchange); got != c.want {
			t.Errorf("%q: got %q, want %q", c.exchange.Name, got, c.want)
		}
	}
}

// A change of policies is seen; a pattern that never ends matches nothing, and is reported (C-8).
func TestMatcherFollows(t *testing.T) {
	var warned []error
	matcher := policy.Matcher{Warn: func(_ string, err error) { warned = append(warned, err) }}
	q := &catalog.QueueRecord{VHost: "/", Name: strings.Repeat("a", 200) + "b", Type: catalog.QueueQuorum}
	for _, c := range []struct{ pattern, want string }{{"^a", "p"}, {"^b", ""}, {"^(a+)+$", ""}} {
		v := vhostPolicies(t, false, catalog.Policy{Name: "p", Pattern: c.pattern, Definition: definition("max-length", 5)})
		if user, _ := matcher.Queue(v, q); name(user) != c.want {
			t.Errorf("pattern %q: got %q, want %q", c.pattern, name(user), c.want)
		}
	}
	if len(warned) != 1 {
		t.Errorf("warned of %v, want the pattern that takes too long", warned)
	}
}

// A change of policies is looked at for every queue of the vhost (PO-8).
func BenchmarkMatcher(b *testing.B) {
	policies := make([]catalog.Policy, 100)
	for i := range policies {
		policies[i] = catalog.Policy{
			Name: fmt.Sprint("p", i), Pattern: fmt.Sprintf("^team-%d-", i), Definition: definition("max-length", 5),
		}
	}
	v := vhostPolicies(b, false, policies...)
	b.Run("queue of 100 policies", func(b *testing.B) {
		var matcher policy.Matcher
		q := &catalog.QueueRecord{VHost: "/", Name: "team-50-orders", Type: catalog.QueueQuorum}
		b.ReportAllocs()
		for b.Loop() {
			if user, _ := matcher.Queue(v, q); user == nil {
				b.Fatal("no policy")
			}
		}
	})
}
