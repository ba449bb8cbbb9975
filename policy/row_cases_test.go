package policy_test

import (
	"math"
	"strings"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

const year10 = 315_360_000_000

// rowCase is what a row of the table of arguments is tested with. Every row has one.
type rowCase struct {
	classic bool  // on a classic queue, as the row asks for
	with    []any // what the argument needs besides, by name as an argument
	good    []good
	bad     []any // values that are refused
	free    bool  // a redeclaration may have it otherwise
	// merge is what argument, policy and operator policy give, nil where they may not or do not,
	// and what is in force then. A row whose key policies have needs one.
	merge [][4]any
}

// good is a value that is accepted, and what it changes.
type good struct {
	value any
	set   func(*argument.Settings)
}

func nothing(*argument.Settings) {}

// number is the case of a limit or a time whose lowest value counts.
func number(low, high int64, field func(*argument.Settings) *int64) rowCase {
	set := func(n int64) good {
		return good{message.Int64(n), func(s *argument.Settings) { *field(s) = n }}
	}
	c := rowCase{
		good: []good{set(low), set(low + 6), set(high), {message.Int8(5), func(s *argument.Settings) { *field(s) = 5 }}},
		bad:  []any{message.Int64(low - 1), "5", true, message.Float64(5), message.Uint64(math.MaxUint64), message.Null()},
	}
	if high < math.MaxInt64 {
		c.bad = append(c.bad, message.Int64(high+1))
	}
	c.merge = [][4]any{{5, 6, nil, 5}, {6, 5, nil, 5}, {nil, 5, nil, 5}}
	return c
}

func (c rowCase) operators() rowCase {
	c.merge = append(c.merge, [4]any{7, 8, 6, 6}, [4]any{7, 6, 8, 6}, [4]any{nil, 6, 5, 5})
	return c
}

func rowCases() map[string]rowCase {
	always := int64(math.MaxInt64)
	ignored := func(*argument.Settings) *int64 { return new(int64) }
	retry := func(t quorumq.RetryType) func(*argument.Settings) {
		return func(s *argument.Settings) { s.Retry = quorumq.Retry{Type: t, MinMs: 5, MaxMs: 9} }
	}
	classicAny := rowCase{classic: true, good: []good{{"lazy", nothing}, {5, nothing}}}
	free := classicAny
	free.free = true
	return map[string]rowCase{
		"x-queue-type": {
			good: []good{
				{"quorum", nothing},
				{"classic", func(s *argument.Settings) { // DEL-1, DEL-9
					s.Classic, s.DeliveryLimit, s.ReturnToPlace = true, quorumq.Unlimited, true
				}},
			},
			bad:  []any{"stream", "Quorum", 5},
			free: true,
		},
		"x-max-length":           number(0, always, func(s *argument.Settings) *int64 { return &s.MaxLength }).operators(),
		"x-max-length-bytes":     number(0, always, func(s *argument.Settings) *int64 { return &s.MaxLengthBytes }).operators(),
		"x-max-length-total":     number(0, always, func(s *argument.Settings) *int64 { return &s.MaxLengthTotal }).operators(),
		"x-message-ttl":          number(0, year10, func(s *argument.Settings) *int64 { return &s.MessageTTLMs }).operators(),
		"x-expires":              number(1, year10, func(s *argument.Settings) *int64 { return &s.ExpiresMs }).operators(),
		"x-max-in-memory-length": number(0, always, ignored).operators(),
		"x-max-in-memory-bytes":  number(0, always, ignored).operators(),
		"x-expires-if-empty": {
			good: []good{{true, func(s *argument.Settings) { s.ExpiresIfEmpty = true }}, {false, nothing}},
			bad:  []any{1, "true"},
		},
		"x-overflow": {
			good: []good{
				{"drop-head", nothing},
				{"reject-publish", func(s *argument.Settings) { s.Overflow = quorumq.OverflowRejectPublish }},
				{"reject-publish-dlx", func(s *argument.Settings) { s.Overflow = quorumq.OverflowRejectPublishDLX }},
			},
			bad: []any{"nope", 1},
			merge: [][4]any{
				{"drop-head", "reject-publish", nil, "drop-head"}, // D-3
				{"drop-head", "reject-publish", "reject-publish-dlx", "reject-publish-dlx"},
			},
		},
		"x-delivery-limit": {
			good: []good{
				{0, func(s *argument.Settings) { s.DeliveryLimit = 0 }},
				{message.Int8(-7), func(s *argument.Settings) { s.DeliveryLimit = quorumq.Unlimited }},
				{message.Int64(math.MinInt64), func(s *argument.Settings) { s.DeliveryLimit = quorumq.Unlimited }},
			},
			bad: []any{"abc", "2", message.Uint64(math.MaxUint64)},
			merge: [][4]any{
				{-1, 7, nil, 7}, {3, 7, 5, 3}, {-1, -5, nil, -1},
			},
		},
		"x-dead-letter-exchange": {
			good: []good{
				{"", func(s *argument.Settings) { s.HasDeadLetterExchange = true }},
				{"d", func(s *argument.Settings) { s.DeadLetterExchange, s.HasDeadLetterExchange = "d", true }},
			},
			bad:   []any{5, strings.Repeat("x", 256)},
			merge: [][4]any{{"a", "p", nil, "a"}, {nil, "p", nil, "p"}},
		},
		"x-dead-letter-routing-key": {
			with: []any{"x-dead-letter-exchange", "d"},
			good: []good{
				{"k", func(s *argument.Settings) { s.DeadLetterRoutingKey, s.HasDeadLetterRoutingKey = "k", true }},
				{"", func(s *argument.Settings) { s.HasDeadLetterRoutingKey = true }},
			},
			bad:   []any{5, strings.Repeat("k", 256)},
			merge: [][4]any{{"a", "p", nil, "a"}, {nil, "p", nil, "p"}},
		},
		"x-dead-letter-strategy": {
			with: []any{"x-dead-letter-exchange", "d", "x-overflow", "reject-publish"},
			good: []good{
				{"at-most-once", nothing},
				{"at-least-once", func(s *argument.Settings) { s.DeadLetterStrategy = argument.AtLeastOnce }},
			},
			bad:   []any{"bogus", 1},
			merge: [][4]any{{"at-most-once", "at-least-once", nil, "at-most-once"}, {nil, "at-least-once", nil, "at-least-once"}},
		},
		"x-dead-letter-backlog-limit": number(1, always, func(s *argument.Settings) *int64 { return &s.BacklogLimit }),
		"x-dead-letter-on-switch": {
			good: []good{
				{"drain", func(s *argument.Settings) { s.OnSwitch = quorumq.SwitchDrain }},
				{"drop", func(s *argument.Settings) { s.OnSwitch = quorumq.SwitchDrop }},
			},
			bad:   []any{"keep", 1},
			merge: [][4]any{{"drain", "drop", nil, "drain"}},
		},
		"x-dead-letter-cycle": {
			good:  []good{{"detect", nothing}, {"allow", func(s *argument.Settings) { s.DeadLetterCycles = true }}},
			bad:   []any{true, "forbid"},
			merge: [][4]any{{"detect", "allow", nil, "detect"}},
		},
		"x-on-delete": {
			with:  []any{"x-dead-letter-exchange", "d"},
			good:  []good{{"discard", nothing}, {"dead-letter", func(s *argument.Settings) { s.DeadLetterOnDelete = true }}},
			bad:   []any{"keep", 5},
			merge: [][4]any{{"discard", "dead-letter", nil, "discard"}},
		},
		"x-dead-letter-max-hops": number(1, always, func(s *argument.Settings) *int64 { return &s.DeadLetterMaxHops }),
		"x-quorum-initial-group-size": {
			good: []good{
				{5, func(s *argument.Settings) { s.GroupSize = 5 }},
				{message.Int64(always), func(s *argument.Settings) { s.GroupSize = catalog.MaxMembers }},
			},
			bad: []any{0, "3"},
		},
		"x-quorum-target-group-size": {
			good: []good{
				{5, func(s *argument.Settings) { s.TargetGroupSize = 5 }},
				{message.Int64(always), func(s *argument.Settings) { s.TargetGroupSize = catalog.MaxMembers }},
			},
			bad:   []any{0, "3"},
			merge: [][4]any{{1, 3, 5, 5}, {1, 5, 3, 5}, {1, 3, nil, 1}, {nil, 3, nil, 3}},
		},
		"x-queue-leader-locator": {
			good: []good{
				{"client-local", nothing},
				{"balanced", func(s *argument.Settings) { s.BalancedLeader = true }},
				{"random", func(s *argument.Settings) { s.BalancedLeader = true }},
				{"least-leaders", func(s *argument.Settings) { s.BalancedLeader = true }},
			},
			bad:   []any{"bogus", 1},
			merge: [][4]any{{"client-local", "balanced", nil, "client-local"}},
		},
		"x-single-active-consumer": {
			good: []good{{true, func(s *argument.Settings) { s.SingleActive = true }}, {false, nothing}},
			bad:  []any{"true", 1},
		},
		"x-consumer-timeout":              number(0, always, func(s *argument.Settings) *int64 { return &s.ConsumerTimeoutMs }),
		"x-consumer-disconnected-timeout": number(0, always, func(s *argument.Settings) *int64 { return &s.DisconnectedTimeoutMs }),
		"x-delayed-retry-type": {
			with: []any{"x-delayed-retry-min", 5, "x-delayed-retry-max", 9},
			good: []good{
				{"disabled", nothing},
				{"all", retry(quorumq.RetryAll)},
				{"failed", retry(quorumq.RetryFailed)},
				{"returned", retry(quorumq.RetryReturned)},
			},
			bad:   []any{"bogus", 1},
			merge: [][4]any{{"all", "failed", nil, "all"}, {"all", "failed", "returned", "returned"}},
		},
		"x-delayed-retry-min": {
			with: []any{"x-delayed-retry-type", "all", "x-delayed-retry-max", 90},
			good: []good{
				{1, func(s *argument.Settings) { s.Retry.MinMs = 1 }},
				{90, func(s *argument.Settings) { s.Retry.MinMs = 90 }},
			},
			bad:   []any{0, -3, "5"},
			merge: [][4]any{{5, 3, 4, 4}, {5, 3, nil, 3}, {nil, nil, 4, 4}},
		},
		"x-delayed-retry-max": {
			with: []any{"x-delayed-retry-type", "all", "x-delayed-retry-min", 5},
			good: []good{
				{5, func(s *argument.Settings) { s.Retry.MaxMs = 5 }},
				{message.Int64(always), func(s *argument.Settings) { s.Retry.MaxMs = always }},
			},
			bad:   []any{0, 4, "9"},
			merge: [][4]any{{9, 8, 7, 7}, {9, nil, 4, 5}},
		},
		"x-delayed-retry-jitter": {
			with: []any{"x-delayed-retry-type", "all", "x-delayed-retry-min", 5, "x-delayed-retry-max", 9},
			good: []good{
				{0, nothing},
				{100, func(s *argument.Settings) { s.Retry.JitterPercent = 100 }},
			},
			bad:   []any{-1, 101, "5"},
			merge: [][4]any{{9, 8, nil, 9}, {9, 8, 20, 20}},
		},
		"x-delayed-retry-backoff": {
			with: []any{"x-delayed-retry-type", "all", "x-delayed-retry-min", 5, "x-delayed-retry-max", 90_000},
			good: []good{
				{"linear", nothing},
				{"exponential", func(s *argument.Settings) { s.Retry.Backoff = quorumq.BackoffExponential }},
				{"1s, 5ms,1m30s", func(s *argument.Settings) {
					s.Retry.Backoff, s.Retry.Steps = quorumq.BackoffSteps, 3
					copy(s.Retry.StepsMs[:], []int64{1000, 5, 90_000})
				}},
			},
			bad:   []any{"bogus", "", "1s,,5s", "1s,-5s", "1us", "200000h", "1s" + strings.Repeat(",1s", 16), 5},
			merge: [][4]any{{"linear", "1s", nil, "linear"}, {"linear", "1s", "exponential", "exponential"}},
		},
		"x-overflow-victim": {
			good: []good{
				{"head", nothing},
				{"lowest-priority", func(s *argument.Settings) { s.Victim = quorumq.VictimLowestPriority }},
				{"oldest", func(s *argument.Settings) { s.Victim = quorumq.VictimOldest }},
			},
			bad: []any{"tail", 1},
		},
		"x-priority-mode": {
			good: []good{{"strict", nothing}, {"fair", func(s *argument.Settings) { s.FairPriorities = true }}},
			bad:  []any{"unfair", true},
		},
		"x-return-position": {
			good: []good{{"returns", nothing}, {"original", func(s *argument.Settings) { s.ReturnToPlace = true }}},
			bad:  []any{"head", message.Null()},
		},
		"x-max-priority":         {classic: true, good: []good{{0, nothing}, {255, nothing}}, bad: []any{256, -1, "5"}},
		"x-queue-mode":           free,
		"x-queue-version":        free,
		"x-max-age":              classicAny,
		"x-initial-cluster-size": classicAny,
		"x-stream-":              classicAny,
	}
}
