package policy_test

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
)

func table(pairs ...any) message.Table {
	var t message.Table
	for i := 0; i < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		switch v := pairs[i+1].(type) {
		case int:
			t.Set(name, message.Int64(int64(v)))
		case string:
			t.Set(name, message.String(v))
		case bool:
			t.Set(name, message.Bool(v))
		case message.Value:
			t.Set(name, v)
		}
	}
	return t
}

// faults returns the arguments that an error blames.
func faults(t *testing.T, err error) (names []string) {
	t.Helper()
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		var ae *policy.ArgumentError
		if !errors.As(err, &ae) {
			t.Fatalf("%v is no *ArgumentError", err)
		}
		if ae.Reason == "" || ae.Value == "" || !strings.Contains(err.Error(), ae.Arg) {
			t.Errorf("imprecise: %v", err)
		}
		return []string{ae.Arg}
	}
	for _, e := range joined.Unwrap() {
		names = append(names, faults(t, e)...)
	}
	return names
}

const year10 = 315_360_000_000

// §3.2: every row with good values, and what comes of them.
func TestResolveAccepts(t *testing.T) {
	for name, c := range map[string]struct {
		args   message.Table
		change func(*policy.Effective)
	}{
		"nothing":            {nil, func(*policy.Effective) {}},
		"type quorum":        {table("x-queue-type", "quorum"), func(*policy.Effective) {}},
		"max-length 0":       {table("x-max-length", 0), func(e *policy.Effective) { e.MaxLength = 0 }},
		"max-length int8":    {table("x-max-length", message.Int8(5)), func(e *policy.Effective) { e.MaxLength = 5 }},
		"max-length uint64":  {table("x-max-length", message.Uint64(5)), func(e *policy.Effective) { e.MaxLength = 5 }},
		"max-length-bytes":   {table("x-max-length-bytes", 100), func(e *policy.Effective) { e.MaxLengthBytes = 100 }},
		"drop-head":          {table("x-overflow", "drop-head"), func(*policy.Effective) {}},
		"reject-publish":     {table("x-overflow", "reject-publish"), func(e *policy.Effective) { e.Overflow = policy.RejectPublish }},
		"reject-publish-dlx": {table("x-overflow", "reject-publish-dlx"), func(e *policy.Effective) { e.Overflow = policy.RejectPublishDLX }},
		"ttl 0":              {table("x-message-ttl", 0), func(e *policy.Effective) { e.MessageTTLMs = 0 }},
		"ttl 10 years":       {table("x-message-ttl", year10), func(e *policy.Effective) { e.MessageTTLMs = year10 }},
		"dlx default": {table("x-dead-letter-exchange", ""), func(e *policy.Effective) {
			e.HasDeadLetterExchange = true
		}},
		"dlx and key": {table("x-dead-letter-exchange", "d", "x-dead-letter-routing-key", "k"), func(e *policy.Effective) {
			e.HasDeadLetterExchange, e.DeadLetterExchange = true, "d"
			e.HasDeadLetterRoutingKey, e.DeadLetterRoutingKey = true, "k"
		}},
		"at-least-once": {
			table("x-dead-letter-exchange", "d", "x-dead-letter-strategy", "at-least-once", "x-overflow", "reject-publish"),
			func(e *policy.Effective) {
				e.HasDeadLetterExchange, e.DeadLetterExchange = true, "d"
				e.DeadLetterStrategy, e.Overflow = policy.AtLeastOnce, policy.RejectPublish
			},
		},
		"backlog limit": {table("x-dead-letter-backlog-limit", 1), func(e *policy.Effective) { e.DeadLetterBacklogLimit = 1 }},
		"on delete": {table("x-on-delete", "dead-letter", "x-dead-letter-exchange", "d"), func(e *policy.Effective) {
			e.DeadLetterOnDelete, e.HasDeadLetterExchange, e.DeadLetterExchange = true, true, "d"
		}},
		"on switch":             {table("x-dead-letter-on-switch", "drop"), func(e *policy.Effective) { e.DeadLetterOnSwitch = policy.SwitchDrop }},
		"cycle allow":           {table("x-dead-letter-cycle", "allow"), func(e *policy.Effective) { e.DeadLetterCycles = true }},
		"cycle detect":          {table("x-dead-letter-cycle", "detect"), func(*policy.Effective) {}},
		"max hops":              {table("x-dead-letter-max-hops", 3), func(e *policy.Effective) { e.DeadLetterMaxHops = 3 }},
		"delivery-limit 0":      {table("x-delivery-limit", 0), func(e *policy.Effective) { e.DeliveryLimit = 0 }},
		"delivery-limit -7":     {table("x-delivery-limit", message.Int8(-7)), func(e *policy.Effective) { e.DeliveryLimit = policy.Unlimited }},
		"delivery-limit lowest": {table("x-delivery-limit", math.MinInt64), func(e *policy.Effective) { e.DeliveryLimit = policy.Unlimited }},
		"retry disabled":        {table("x-delayed-retry-type", "disabled", "x-delayed-retry-min", 1), func(*policy.Effective) {}},
		"retry": {table("x-delayed-retry-type", "all", "x-delayed-retry-min", 5, "x-delayed-retry-max", 9, "x-delayed-retry-jitter", 20), func(e *policy.Effective) {
			e.Retry = policy.Retry{Type: policy.RetryAll, MinMs: 5, MaxMs: 9, JitterPercent: 20}
		}},
		"retry returned": {table("x-delayed-retry-type", "returned", "x-delayed-retry-min", 5, "x-delayed-retry-backoff", "linear"), func(e *policy.Effective) {
			e.Retry = policy.Retry{Type: policy.RetryReturned, MinMs: 5, MaxMs: 5}
		}},
		"retry exponential": {table("x-delayed-retry-type", "all", "x-delayed-retry-min", 5, "x-delayed-retry-max", 9, "x-delayed-retry-backoff", "exponential"), func(e *policy.Effective) {
			e.Retry = policy.Retry{Type: policy.RetryAll, MinMs: 5, MaxMs: 9, Exponential: true}
		}},
		"retry list": {table("x-delayed-retry-type", "failed", "x-delayed-retry-backoff", "1s, 5ms,1m30s"), func(e *policy.Effective) {
			e.Retry = policy.Retry{Type: policy.RetryFailed, MinMs: 5, MaxMs: 90_000, StepsMs: []int64{1000, 5, 90_000}}
		}},
		"retry list bounded": {table("x-delayed-retry-type", "failed", "x-delayed-retry-backoff", "1s,5s", "x-delayed-retry-max", 100), func(e *policy.Effective) {
			e.Retry = policy.Retry{Type: policy.RetryFailed, MinMs: 100, MaxMs: 100, StepsMs: []int64{1000, 5000}}
		}},
		"D-8: constant": {table("x-delayed-retry-type", "failed", "x-delayed-retry-min", 300), func(e *policy.Effective) {
			e.Retry = policy.Retry{Type: policy.RetryFailed, MinMs: 300, MaxMs: 300}
			e.Warnings = []string{`x-delayed-retry-type "failed" without x-delayed-retry-max: every wait is x-delayed-retry-min; set a maximum for waits to grow`}
		}},
		"total":     {table("x-max-length-total", 5), func(e *policy.Effective) { e.MaxLengthTotal = 5 }},
		"victim":    {table("x-overflow-victim", "oldest"), func(e *policy.Effective) { e.OverflowVictim = policy.VictimOldest }},
		"fair":      {table("x-priority-mode", "fair"), func(e *policy.Effective) { e.FairPriorities = true }},
		"strict":    {table("x-priority-mode", "strict", "x-return-position", "returns"), func(*policy.Effective) {}},
		"to place":  {table("x-return-position", "original"), func(e *policy.Effective) { e.ReturnToPlace = true }},
		"sac false": {table("x-single-active-consumer", false), func(*policy.Effective) {}},
		"expires": {table("x-expires", 1, "x-expires-if-empty", true), func(e *policy.Effective) {
			e.ExpiresMs, e.ExpiresIfEmpty = 1, true
		}},
		"consumer timeout":      {table("x-consumer-timeout", 1000), func(e *policy.Effective) { e.ConsumerTimeoutMs = 1000 }},
		"sac true":              {table("x-single-active-consumer", true), func(e *policy.Effective) { e.SingleActiveConsumer = true }},
		"consumer timeout off":  {table("x-consumer-timeout", 0), func(e *policy.Effective) { e.ConsumerTimeoutMs = 0 }},
		"disconnected":          {table("x-consumer-disconnected-timeout", 5), func(e *policy.Effective) { e.DisconnectedTimeoutMs = 5 }},
		"group of 5":            {table("x-quorum-initial-group-size", 5), func(e *policy.Effective) { e.GroupSize = 5 }},
		"target of 5":           {table("x-quorum-target-group-size", 5), func(e *policy.Effective) { e.TargetGroupSize = 5 }},
		"group of all":          {table("x-quorum-initial-group-size", math.MaxInt64), func(e *policy.Effective) { e.GroupSize = catalog.MaxMembers }},
		"locator local":         {table("x-queue-leader-locator", "client-local"), func(*policy.Effective) {}},
		"locator balanced":      {table("x-queue-leader-locator", "balanced"), func(e *policy.Effective) { e.LeaderLocator = policy.Balanced }},
		"locator random":        {table("x-queue-leader-locator", "random"), func(e *policy.Effective) { e.LeaderLocator = policy.Balanced }},
		"locator least-leaders": {table("x-queue-leader-locator", "least-leaders"), func(e *policy.Effective) { e.LeaderLocator = policy.Balanced }},
		"in memory":             {table("x-max-in-memory-length", 5, "x-max-in-memory-bytes", 0), func(*policy.Effective) {}},
		"unknown name":          {table("x-foo", "bar", "y", message.Null()), func(*policy.Effective) {}},
		"priorities on classic": {table("x-queue-type", "classic", "x-max-priority", 255), func(e *policy.Effective) {
			*e = policy.Default(catalog.QueueClassic)
		}},
		"classic": {table("x-queue-type", "classic"), func(e *policy.Effective) { // DEL-1, DEL-9
			e.QueueType, e.DeliveryLimit, e.ReturnToPlace = catalog.QueueClassic, policy.Unlimited, true
		}},
		"classic as quorum": {table("x-queue-type", "classic", "x-delivery-limit", 20, "x-return-position", "returns"), func(e *policy.Effective) {
			e.QueueType = catalog.QueueClassic
		}},
		"mode on classic": {table("x-queue-type", "classic", "x-queue-mode", "lazy"), func(e *policy.Effective) {
			*e = policy.Default(catalog.QueueClassic)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			want := policy.Default(catalog.QueueQuorum)
			c.change(&want)
			got, err := policy.Resolve(c.args)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// D-2: every row with bad values.
func TestResolveRefuses(t *testing.T) {
	for _, c := range []struct {
		args message.Table
		want []string
	}{
		{table("x-queue-type", "stream"), []string{"x-queue-type"}},
		{table("x-queue-type", 5), []string{"x-queue-type"}},
		{table("x-max-length", -1), []string{"x-max-length"}},
		{table("x-max-length", "5"), []string{"x-max-length"}},
		{table("x-max-length", message.Float64(5)), []string{"x-max-length"}},
		{table("x-max-length", message.Uint64(math.MaxUint64)), []string{"x-max-length"}},
		{table("x-max-length-bytes", -1), []string{"x-max-length-bytes"}},
		{table("x-max-length-bytes", true), []string{"x-max-length-bytes"}},
		{table("x-overflow", "nope"), []string{"x-overflow"}},
		{table("x-overflow", 1), []string{"x-overflow"}},
		{table("x-message-ttl", -1), []string{"x-message-ttl"}},
		{table("x-message-ttl", year10+1), []string{"x-message-ttl"}},
		{table("x-message-ttl", "100"), []string{"x-message-ttl"}},
		{table("x-expires", 0), []string{"x-expires"}},
		{table("x-expires", year10+1), []string{"x-expires"}},
		{table("x-expires", "1"), []string{"x-expires"}},
		{table("x-expires-if-empty", 1), []string{"x-expires-if-empty"}},
		{table("x-dead-letter-exchange", 5), []string{"x-dead-letter-exchange"}},
		{table("x-dead-letter-exchange", strings.Repeat("x", 256)), []string{"x-dead-letter-exchange"}},
		{table("x-dead-letter-routing-key", "k"), []string{"x-dead-letter-routing-key"}},
		{table("x-dead-letter-exchange", "", "x-dead-letter-routing-key", 5), []string{"x-dead-letter-routing-key"}},
		{table("x-dead-letter-exchange", "", "x-dead-letter-routing-key", strings.Repeat("k", 256)), []string{"x-dead-letter-routing-key"}},
		{table("x-dead-letter-strategy", "bogus"), []string{"x-dead-letter-strategy"}},
		{table("x-dead-letter-strategy", 1), []string{"x-dead-letter-strategy"}},
		{table("x-delivery-limit", "abc"), []string{"x-delivery-limit"}},
		{table("x-delivery-limit", "2"), []string{"x-delivery-limit"}},
		{table("x-delivery-limit", message.Uint64(math.MaxUint64)), []string{"x-delivery-limit"}},
		{table("x-dead-letter-backlog-limit", 0), []string{"x-dead-letter-backlog-limit"}},
		{table("x-on-delete", "keep"), []string{"x-on-delete"}},
		{table("x-on-delete", 5), []string{"x-on-delete"}},
		{table("x-dead-letter-on-switch", "keep"), []string{"x-dead-letter-on-switch"}},
		{table("x-dead-letter-cycle", true), []string{"x-dead-letter-cycle"}},
		{table("x-dead-letter-cycle", "forbid"), []string{"x-dead-letter-cycle"}},
		{table("x-dead-letter-max-hops", 0), []string{"x-dead-letter-max-hops"}},
		{table("x-dead-letter-max-hops", "3"), []string{"x-dead-letter-max-hops"}},
		{table("x-delayed-retry-type", "bogus"), []string{"x-delayed-retry-type"}},
		{table("x-delayed-retry-type", 1), []string{"x-delayed-retry-type"}},
		{table("x-delayed-retry-type", "all"), []string{"x-delayed-retry-type"}},
		{table("x-delayed-retry-type", "all", "x-delayed-retry-min", 0), []string{"x-delayed-retry-min"}},
		{table("x-delayed-retry-backoff", "bogus"), []string{"x-delayed-retry-backoff"}},
		{table("x-delayed-retry-backoff", ""), []string{"x-delayed-retry-backoff"}},
		{table("x-delayed-retry-backoff", "1s,,5s"), []string{"x-delayed-retry-backoff"}},
		{table("x-delayed-retry-backoff", "1s,-5s"), []string{"x-delayed-retry-backoff"}},
		{table("x-delayed-retry-backoff", "1us"), []string{"x-delayed-retry-backoff"}},
		{table("x-delayed-retry-backoff", "200000h"), []string{"x-delayed-retry-backoff"}},
		{table("x-delayed-retry-backoff", "1s"+strings.Repeat(",1s", 16)), []string{"x-delayed-retry-backoff"}},
		{table("x-delayed-retry-backoff", 5), []string{"x-delayed-retry-backoff"}},
		{table("x-delayed-retry-jitter", -1), []string{"x-delayed-retry-jitter"}},
		{table("x-delayed-retry-jitter", 101), []string{"x-delayed-retry-jitter"}},
		{table("x-delayed-retry-jitter", "5"), []string{"x-delayed-retry-jitter"}},
		{table("x-max-length-total", -1), []string{"x-max-length-total"}},
		{table("x-overflow-victim", "tail"), []string{"x-overflow-victim"}},
		{table("x-overflow-victim", 1), []string{"x-overflow-victim"}},
		{table("x-priority-mode", "unfair"), []string{"x-priority-mode"}},
		{table("x-priority-mode", true), []string{"x-priority-mode"}},
		{table("x-return-position", "head"), []string{"x-return-position"}},
		{table("x-return-position", message.Null()), []string{"x-return-position"}},
		{table("x-delayed-retry-min", 0), []string{"x-delayed-retry-min"}},
		{table("x-delayed-retry-min", -3), []string{"x-delayed-retry-min"}},
		{table("x-delayed-retry-min", 5, "x-delayed-retry-max", 4), []string{"x-delayed-retry-max"}},
		{table("x-delayed-retry-max", "9"), []string{"x-delayed-retry-max"}},
		{table("x-single-active-consumer", "true"), []string{"x-single-active-consumer"}},
		{table("x-consumer-timeout", -1), []string{"x-consumer-timeout"}},
		{table("x-consumer-timeout", "5"), []string{"x-consumer-timeout"}},
		{table("x-consumer-disconnected-timeout", -1), []string{"x-consumer-disconnected-timeout"}},
		{table("x-consumer-disconnected-timeout", message.Null()), []string{"x-consumer-disconnected-timeout"}},
		{table("x-quorum-initial-group-size", 0), []string{"x-quorum-initial-group-size"}},
		{table("x-quorum-initial-group-size", "3"), []string{"x-quorum-initial-group-size"}},
		{table("x-quorum-target-group-size", 0), []string{"x-quorum-target-group-size"}},
		{table("x-queue-leader-locator", "bogus"), []string{"x-queue-leader-locator"}},
		{table("x-queue-leader-locator", 1), []string{"x-queue-leader-locator"}},
		{table("x-max-in-memory-length", -1), []string{"x-max-in-memory-length"}},
		{table("x-max-in-memory-bytes", "1"), []string{"x-max-in-memory-bytes"}},
		{table("x-max-priority", 5), []string{"x-max-priority"}},
		{table("x-max-priority", 256), []string{"x-max-priority"}},
		{table("x-max-priority", 256, "x-queue-type", "classic"), []string{"x-max-priority"}},
		{table("x-max-priority", "5", "x-queue-type", "classic"), []string{"x-max-priority"}},
		{table("x-max-priority", -1, "x-queue-type", "classic"), []string{"x-max-priority"}},
		{table("x-queue-mode", "lazy"), []string{"x-queue-mode"}},
		{table("x-queue-version", 2), []string{"x-queue-version"}},
		{table("x-max-age", "1D"), []string{"x-max-age"}},
		{table("x-initial-cluster-size", 3), []string{"x-initial-cluster-size"}},
		{table("x-stream-max-segment-size-bytes", 3), []string{"x-stream-max-segment-size-bytes"}},
		{table("x-queue-type", "stream", "x-max-age", "1D"), []string{"x-queue-type"}},
		{table("x-max-length", -1, "x-overflow", "nope", "x-expires", 5), []string{"x-max-length", "x-overflow"}},
	} {
		t.Run(c.args.String(), func(t *testing.T) {
			_, err := policy.Resolve(c.args)
			if got := faults(t, err); !slices.Equal(got, c.want) {
				t.Errorf("faults %q, want %q: %v", got, c.want, err)
			}
		})
	}
}

// The catalog compares exactly the arguments that are checked here.
func TestCatalogKnowsTheSameArguments(t *testing.T) {
	for _, name := range []string{
		"x-queue-type", "x-max-length", "x-max-length-bytes", "x-overflow", "x-message-ttl", "x-expires",
		"x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-strategy", "x-delivery-limit",
		"x-dead-letter-backlog-limit", "x-dead-letter-on-switch", "x-dead-letter-cycle", "x-dead-letter-max-hops", "x-on-delete",
		"x-delayed-retry-type", "x-delayed-retry-min", "x-delayed-retry-max", "x-delayed-retry-backoff", "x-delayed-retry-jitter",
		"x-max-length-total", "x-overflow-victim", "x-priority-mode", "x-return-position", "x-single-active-consumer",
		"x-consumer-timeout", "x-consumer-disconnected-timeout", "x-quorum-initial-group-size",
		"x-quorum-target-group-size", "x-queue-leader-locator", "x-max-in-memory-length", "x-max-in-memory-bytes",
		"x-max-priority", "x-queue-mode", "x-queue-version", "x-max-age", "x-initial-cluster-size", "x-stream-offset",
	} {
		if !catalog.QueueArgumentKnown(name) {
			t.Errorf("%s: not known to the catalog", name)
		}
		// A table is no good value for any of them, so each must be refused.
		if _, err := policy.Resolve(table(name, message.TableValue(nil))); err == nil {
			t.Errorf("%s: a nested table was accepted", name)
		}
	}
	for _, name := range []string{"x-foo", "", "max-length"} {
		if catalog.QueueArgumentKnown(name) {
			t.Errorf("%s: known to the catalog", name)
		}
	}
}

// Q-8, DL-20: accepted, with a warning.
func TestWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		args     message.Table
		want     []string
		strategy policy.Strategy
		enabled  bool
	}{
		"nothing": {},
		"strategy without exchange": {
			args: table("x-dead-letter-strategy", "at-least-once"), want: []string{"stays disabled"},
		},
		"degraded": {
			args: table("x-dead-letter-exchange", "d", "x-dead-letter-strategy", "at-least-once"),
			want: []string{`works as "at-most-once"`}, strategy: policy.AtMostOnce, enabled: true,
		},
		"DL-20: a backlog of its own": {
			args:     table("x-dead-letter-exchange", "d", "x-dead-letter-strategy", "at-least-once", "x-dead-letter-backlog-limit", 5),
			strategy: policy.AtLeastOnce, enabled: true,
		},
		"whole": {
			args:     table("x-dead-letter-exchange", "d", "x-dead-letter-strategy", "at-least-once", "x-overflow", "reject-publish-dlx"),
			strategy: policy.AtLeastOnce, enabled: true,
		},
		"at-most-once": {
			args: table("x-dead-letter-exchange", "", "x-overflow", "reject-publish"), strategy: policy.AtMostOnce, enabled: true,
		},
		"Q-18: without exchange": {
			args: table("x-on-delete", "dead-letter"), want: []string{"messages of a deleted queue are dropped"},
		},
		"Q-18: nothing to say": {args: table("x-on-delete", "discard")},
		"Q-18: with an exchange": {
			args: table("x-on-delete", "dead-letter", "x-dead-letter-exchange", ""), strategy: policy.AtMostOnce, enabled: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := policy.Resolve(c.args)
			if err != nil {
				t.Fatal(err)
			}
			if len(e.Warnings) != len(c.want) {
				t.Fatalf("warnings %q, want %q", e.Warnings, c.want)
			}
			for i, want := range c.want {
				if !strings.Contains(e.Warnings[i], want) {
					t.Errorf("warning %q, want one with %q", e.Warnings[i], want)
				}
			}
			if s, ok := e.EffectiveStrategy(); s != c.strategy || ok != c.enabled {
				t.Errorf("strategy %q, %v; want %q, %v", s, ok, c.strategy, c.enabled)
			}
		})
	}
}

//
func TestResolveDeclaration(t *testing.T) {
	named := func(kind string, d policy.Declaration) policy.Declaration {
		d.Arguments = table("x-queue-type", kind)
		return d
	}
	good := policy.Declaration{Name: "q", Durable: true}
	for name, c := range map[string]struct {
		d      policy.Declaration
		absent catalog.QueueType
		kind   catalog.QueueType
		want   []string
	}{
		"default":                   {d: good, kind: catalog.QueueQuorum},
		"vhost default classic":     {d: good, absent: catalog.QueueClassic, kind: catalog.QueueClassic},
		"quorum over vhost default": {d: named("quorum", good), absent: catalog.QueueClassic, kind: catalog.QueueQuorum},
		"classic":                   {d: named("classic", good), kind: catalog.QueueClassic},
		"quorum exclusive":          {d: named("quorum", policy.Declaration{Name: "q", Durable: true, Exclusive: true}), want: []string{"exclusive"}},
		"quorum auto_delete":        {d: named("quorum", policy.Declaration{Name: "q", Durable: true, AutoDelete: true}), want: []string{"auto_delete"}},
		"quorum not durable":        {d: named("quorum", policy.Declaration{Name: "q"}), want: []string{"durable"}},
		"quorum without name":       {d: named("quorum", policy.Declaration{Durable: true}), want: []string{"name"}},
		"quorum all wrong": {
			d: named("quorum", policy.Declaration{Exclusive: true, AutoDelete: true}), want: []string{"durable", "exclusive", "auto_delete", "name"},
		},
		"exclusive is classic":   {d: policy.Declaration{Name: "q", Durable: true, Exclusive: true}, kind: catalog.QueueClassic},
		"auto_delete is classic": {d: policy.Declaration{Name: "q", Durable: true, AutoDelete: true}, kind: catalog.QueueClassic},
		"not durable is classic": {d: policy.Declaration{Name: "q"}, kind: catalog.QueueClassic},
		"nameless is classic":    {d: policy.Declaration{Durable: true}, kind: catalog.QueueClassic},
		"classic may be all": {
			d: named("classic", policy.Declaration{Exclusive: true, AutoDelete: true}), kind: catalog.QueueClassic,
		},
		"classic without name":  {d: named("classic", policy.Declaration{Durable: true}), kind: catalog.QueueClassic},
		"bad type":              {d: named("stream", good), want: []string{"x-queue-type"}},
		"bad type, not durable": {d: named("stream", policy.Declaration{Name: "q"}), want: []string{"x-queue-type"}},
		"bad argument and property": {
			d:    policy.Declaration{Name: "q", Exclusive: true, Durable: true, Arguments: table("x-max-length", -1)},
			want: []string{"x-max-length"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := policy.ResolveDeclaration(c.d, c.absent)
			if got := faults(t, err); !slices.Equal(got, c.want) {
				t.Fatalf("faults %q, want %q: %v", got, c.want, err)
			}
			if e.QueueType != c.kind {
				t.Errorf("type %q, want %q", e.QueueType, c.kind)
			}
		})
	}
}
