package policy

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
)

const (
	argType         = "x-queue-type"
	argDLX          = "x-dead-letter-exchange"
	argDLK          = "x-dead-letter-routing-key"
	argStrategy     = "x-dead-letter-strategy"
	argRetryType    = "x-delayed-retry-type"
	argRetryMin     = "x-delayed-retry-min"
	argRetryMax     = "x-delayed-retry-max"
	argRetryBackoff = "x-delayed-retry-backoff"
	argRetryJitter  = "x-delayed-retry-jitter"
	argMaxTotal     = "x-max-length-total"
	argMessageRate  = "x-max-message-rate"
	argByteRate     = "x-max-byte-rate"
	argMaxConsumers = "x-max-consumers"
	argSAC          = "x-single-active-consumer"
	argMaxPriority  = "x-max-priority"
	maxGroupSize    = catalog.MaxMembers
	maxDLKBytes     = message.MaxNameBytes
	maxPriority     = 255
	// streamType is a type of queue that RabbitMQ has and this broker has not.
	streamType = "stream"
)

// Resolve checks the arguments of a declare against every row of the table and returns
// what is in force. The type is the one named by x-queue-type, quorum when absent. All
// faults are returned at once, joined, each an *ArgumentError. Names that the table does
// not know have no effect.
func Resolve(args message.Table) (Effective, error) {
	return ResolveAs(args, catalog.QueueQuorum)
}

// ResolveAs is Resolve for a queue whose type, if the arguments name none, is absent.
func ResolveAs(args message.Table, absent catalog.QueueType) (Effective, error) {
	t := absent
	a := arguments{table: args}
	if v, _ := args.Get(argType); v.EqualClass(message.String(streamType)) {
		a.fault(argType, strconv.Quote(streamType), "there are no streams: declare a quorum queue, one for each group of readers, "+
			"and keep what shall be read again elsewhere")
		t = streamType // its other arguments are no further faults
	} else if s, ok := a.oneOf(argType, string(catalog.QueueQuorum), string(catalog.QueueClassic)); ok {
		t = catalog.QueueType(s)
	}
	e := Default(t)
	a.limits(&e)
	a.deadLettering(&e)
	a.replication(&e)
	a.consumers(&e)
	a.delayedRetry(&e)
	a.order(&e)
	a.quotas(&e)
	a.notForType(e.QueueType)
	_, strategySet := args.Get(argStrategy)
	e.warn(strategySet)
	if len(a.faults) > 0 {
		return Effective{}, errors.Join(a.faults...)
	}
	return e, nil
}

// arguments reads a table and gathers the faults.
type arguments struct {
	table  message.Table
	faults []error
}

func (a *arguments) fault(arg, value, reason string) {
	a.faults = append(a.faults, &ArgumentError{Arg: arg, Value: value, Reason: reason})
}

// otherType refuses an argument of queues of another type; remedy is what helps besides leaving it out.
func (a *arguments) otherType(arg, value, remedy string) {
	a.faults = append(a.faults, &ArgumentError{Arg: arg, Value: value, Reason: "not for quorum queues; leave the argument out" + remedy, OtherType: true})
}

func (a *arguments) wrongType(arg string, v message.Value, want string) {
	a.fault(arg, v.String(), "want "+want+", have "+v.Kind().String())
}

// integer reads an integer argument of any width within bounds (C-2).
func (a *arguments) integer(arg string, low, high int64) (n int64, ok bool) {
	v, ok := a.table.Get(arg)
	if !ok {
		return 0, false
	}
	if !v.IsInt() {
		a.wrongType(arg, v, "an integer")
		return 0, false
	}
	if n, ok = v.AsInt(); ok && n >= low && n <= high {
		return n, true
	}
	switch {
	case high < math.MaxInt64:
		a.fault(arg, v.String(), fmt.Sprintf("out of range, want %d to %d", low, high))
	case low > math.MinInt64:
		a.fault(arg, v.String(), fmt.Sprintf("out of range, want %d or more (at most %d)", low, int64(math.MaxInt64)))
	default:
		a.fault(arg, v.String(), "out of range of a signed 64-bit integer")
	}
	return 0, false
}

func (a *arguments) text(arg string) (s string, ok bool) {
	v, ok := a.table.Get(arg)
	if !ok {
		return "", false
	}
	if s, ok = v.AsString(); !ok {
		a.wrongType(arg, v, "a string")
	}
	return s, ok
}

func (a *arguments) oneOf(arg string, allowed ...string) (s string, ok bool) {
	if s, ok = a.text(arg); !ok {
		return "", false
	}
	for _, w := range allowed {
		if s == w {
			return s, true
		}
	}
	a.fault(arg, strconv.Quote(s), "unknown, want one of "+strings.Join(allowed, ", "))
	return "", false
}

func (a *arguments) boolean(arg string) bool {
	v, ok := a.table.Get(arg)
	if !ok {
		return false
	}
	b, ok := v.AsBool()
	if !ok {
		a.wrongType(arg, v, "a boolean")
	}
	return ok && b
}

func (a *arguments) limits(e *Effective) {
	if n, ok := a.integer("x-max-length", 0, math.MaxInt64); ok {
		e.MaxLength = n
	}
	if n, ok := a.integer("x-max-length-bytes", 0, math.MaxInt64); ok {
		e.MaxLengthBytes = n
	}
	if n, ok := a.integer(argMaxTotal, 0, math.MaxInt64); ok {
		e.MaxLengthTotal = n
	}
	if s, ok := a.oneOf("x-overflow", string(DropHead), string(RejectPublish), string(RejectPublishDLX)); ok {
		e.Overflow = Overflow(s)
	}
	if n, ok := a.integer("x-message-ttl", 0, MaxTimeMs); ok {
		e.MessageTTLMs = n
	}
	if n, ok := a.integer("x-expires", 1, MaxTimeMs); ok {
		e.ExpiresMs = n
	}
	e.ExpiresIfEmpty = a.boolean("x-expires-if-empty")
	if n, ok := a.integer("x-delivery-limit", math.MinInt64, math.MaxInt64); ok {
		e.DeliveryLimit = max(n, Unlimited)
	}
	// Accepted without effect: bodies are never all in memory.
	a.integer("x-max-in-memory-length", 0, math.MaxInt64)
	a.integer("x-max-in-memory-bytes", 0, math.MaxInt64)
}

func (a *arguments) replication(e *Effective) {
	if n, ok := a.integer("x-quorum-initial-group-size", 1, math.MaxInt64); ok {
		e.GroupSize = int(min(n, maxGroupSize))
	}
	if n, ok := a.integer("x-quorum-target-group-size", 1, math.MaxInt64); ok {
		e.TargetGroupSize = int(min(n, maxGroupSize))
	}
	s, ok := a.oneOf("x-queue-leader-locator", string(ClientLocal), string(Balanced), "random", "least-leaders")
	if ok && s != string(ClientLocal) {
		e.LeaderLocator = Balanced
	}
}

func (a *arguments) consumers(e *Effective) {
	e.SingleActiveConsumer = a.boolean(argSAC)
	if n, ok := a.integer("x-consumer-timeout", 0, math.MaxInt64); ok {
		e.ConsumerTimeoutMs = n
	}
	if n, ok := a.integer("x-consumer-disconnected-timeout", 0, math.MaxInt64); ok {
		e.DisconnectedTimeoutMs = n
	}
}

// order reads which message goes first, in deliveries and as the victim of a limit.
func (a *arguments) order(e *Effective) {
	if s, ok := a.oneOf("x-overflow-victim", string(VictimHead), string(VictimLowestPriority), string(VictimOldest)); ok {
		e.OverflowVictim = Victim(s)
	}
	mode, _ := a.oneOf("x-priority-mode", "strict", "fair")
	e.FairPriorities = mode == "fair"
	if position, ok := a.oneOf("x-return-position", "returns", "original"); ok {
		e.ReturnToPlace = position == "original"
	}
}

// notForType refuses arguments that the queue type cannot have (D-2).
func (a *arguments) notForType(t catalog.QueueType) {
	if n, ok := a.integer(argMaxPriority, 0, maxPriority); ok && t == catalog.QueueQuorum {
		a.otherType(argMaxPriority, strconv.FormatInt(n, 10),
			", for quorum queues have 32 priorities without it, or ask for a classic queue: x-queue-type classic, or a vhost with that as its default")
	}
	if t != catalog.QueueQuorum {
		return
	}
	for _, f := range a.table {
		switch f.Name {
		case "x-queue-mode", "x-queue-version", "x-max-age", "x-initial-cluster-size":
		default:
			if !strings.HasPrefix(f.Name, "x-stream-") {
				continue
			}
		}
		a.otherType(f.Name, f.Value.String(), "")
	}
}
