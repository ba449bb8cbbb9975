package policy

import (
	"math"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
)

// argTargetSize is the argument whose name is not that of its policy key with "x-".
const argTargetSize = "x-quorum-target-group-size"

// keyAlternateExchange is the one key that exchanges honour; queues do not.
const keyAlternateExchange = "alternate-exchange"

// merging says how a key's values from operator, argument and policy become one (PO-6,
// PO-7, and the groups of the table of arguments).
type merging uint8

const (
	// lowest of all that are set.
	lowest merging = iota
	// argumentFirst: the argument, else the policy.
	argumentFirst
	// operatorFirst: the operator, else the argument, else the policy.
	operatorFirst
	// finite: the lower limit, and any limit before none.
	finite
	// retryMin: the lower of argument and policy, but not below the operator's.
	retryMin
	// targetSize: the higher of both policies if there is an operator's, else the argument,
	// else the policy.
	targetSize
)

// key is a setting that policies can give.
type key struct {
	name     string
	arg      string // the argument of the same meaning
	operator bool   // operators' policies may give it (PO-5)
	merging  merging
}

// keys are those of queues (PO-2).
func keys() []key {
	return []key{
		{"dead-letter-exchange", argDLX, false, argumentFirst},
		{"dead-letter-routing-key", argDLK, false, argumentFirst},
		{"dead-letter-strategy", argStrategy, false, argumentFirst},
		{"dead-letter-backlog-limit", argBacklogLimit, false, lowest},
		{"dead-letter-on-switch", argOnSwitch, false, argumentFirst},
		{"on-delete", catalog.ArgOnDelete, false, argumentFirst},
		{"dead-letter-cycle", argCycle, false, argumentFirst},
		{"dead-letter-max-hops", argMaxHops, false, lowest},
		{"message-ttl", "x-message-ttl", true, lowest},
		{"expires", "x-expires", true, lowest},
		{"max-length", "x-max-length", true, lowest},
		{"max-length-bytes", "x-max-length-bytes", true, lowest},
		{"max-length-total", argMaxTotal, true, lowest},
		{"max-message-rate", argMessageRate, true, lowest},
		{"max-byte-rate", argByteRate, true, lowest},
		{"max-consumers", argMaxConsumers, true, lowest},
		{"overflow", "x-overflow", true, operatorFirst},
		{"delivery-limit", "x-delivery-limit", true, finite},
		{"consumer-timeout", "x-consumer-timeout", false, lowest},
		{"consumer-disconnected-timeout", "x-consumer-disconnected-timeout", false, lowest},
		{"delayed-retry-type", argRetryType, true, operatorFirst},
		{"delayed-retry-min", argRetryMin, true, retryMin},
		{"delayed-retry-max", argRetryMax, true, lowest},
		{"delayed-retry-backoff", argRetryBackoff, true, operatorFirst},
		{"delayed-retry-jitter", argRetryJitter, true, operatorFirst},
		{"target-group-size", argTargetSize, true, targetSize},
		{"queue-leader-locator", "x-queue-leader-locator", false, argumentFirst},
		{"max-in-memory-length", "x-max-in-memory-length", true, lowest},
		{"max-in-memory-bytes", "x-max-in-memory-bytes", true, lowest},
	}
}

// sources are the values of one key; a nil one is not set.
type sources struct{ argument, policy, operator *message.Value }

// merged returns what is in force of one key.
func (m merging) merged(s sources) (message.Value, bool) {
	switch m {
	case argumentFirst:
		return first(s.argument, s.policy)
	case operatorFirst:
		return first(s.operator, s.argument, s.policy)
	case finite:
		return fold(finiteOf, s.operator, s.policy, s.argument)
	case retryMin:
		low, ok := fold(lowerOf, s.argument, s.policy)
		if !ok {
			return first(s.operator)
		}
		return fold(higherOf, &low, s.operator)
	case targetSize:
		if s.operator != nil {
			return fold(higherOf, s.operator, s.policy)
		}
		return first(s.argument, s.policy)
	case lowest:
	}
	return fold(lowerOf, s.argument, s.policy, s.operator)
}

func first(all ...*message.Value) (message.Value, bool) {
	for _, v := range all {
		if v != nil {
			return *v, true
		}
	}
	return message.Value{}, false
}

// fold joins the integers that are set; a lone value stays as it is.
func fold(join func(a, b int64) int64, all ...*message.Value) (out message.Value, any bool) {
	for _, v := range all {
		switch {
		case v == nil:
		case !any:
			out, any = *v, true
		default:
			out = message.Int64(join(integerOf(out), integerOf(*v)))
		}
	}
	return out, any
}

// integerOf reads a value that was checked to be an integer.
func integerOf(v message.Value) int64 {
	if n, ok := v.AsInt(); ok {
		return n
	}
	return math.MaxInt64
}

func lowerOf(a, b int64) int64  { return min(a, b) }
func higherOf(a, b int64) int64 { return max(a, b) }

func finiteOf(a, b int64) int64 {
	if a < 0 || b < 0 {
		return max(a, b)
	}
	return min(a, b)
}
