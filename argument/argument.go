// Package argument is the table of the arguments of queues. A row says all that there is to say of
// one: its name as an argument and as a key of policies, what its values may be, who may give it, how
// what several give is merged, whether a redeclaration must have it the same, and what it sets.
//
// From the table come the checks of a declare and of policies, their errors, what is in force for a
// queue, which names are known, and the table of docs/semantics.md. The package only computes; all
// of it may be used concurrently.
package argument

import (
	"fmt"
	"iter"
	"strings"

	"github.com/quorate/quorate/message"
)

// Names of arguments that have a meaning besides what they set.
const (
	QueueType     = "x-queue-type"
	MaxPriority   = "x-max-priority" // read from the queue's record (PR-1)
	QueueMode     = "x-queue-mode"
	QueueVersion  = "x-queue-version"
	OnDelete      = "x-on-delete" // read from the queue's record, too
	Overflow      = "x-overflow"
	LeaderLocator = "x-queue-leader-locator"
	MessageRate   = "x-max-message-rate" // looked for before a queue has a rate at all (VH-15)
	ByteRate      = "x-max-byte-rate"

	// DeadLetters is what the names of arguments about dead-lettering begin with.
	DeadLetters = "x-dead-letter-"
	// Streams is what the names of arguments of streams begin with.
	Streams = "x-stream-"

	dlExchange   = "x-dead-letter-exchange"
	dlKey        = "x-dead-letter-routing-key"
	dlStrategy   = "x-dead-letter-strategy"
	backlogLimit = "x-dead-letter-backlog-limit"
	retryType    = "x-delayed-retry-type"
	retryMin     = "x-delayed-retry-min"
	retryMax     = "x-delayed-retry-max"
)

// OnDeleteDeadLetter is the value of OnDelete that keeps what a deleted queue holds.
const OnDeleteDeadLetter = "dead-letter"

// Row is one argument.
type Row struct {
	// Name is the name as an argument. One that ends with "-" stands for all that begin with it.
	Name string
	// Key is the name as a key of policies; "": only a declare gives it.
	Key string
	// Operators may give it in their policies, too (PO-5).
	Operators bool
	// Merging is how what several give becomes one value (PO-6, PO-7).
	Merging Merging
	// Equality reports whether a redeclaration must have it the same.
	Equality Equality
	// Values are those that it may have.
	Values Values
	// ClassicOnly are refused on quorum queues (D-2), with a remedy besides leaving them out.
	ClassicOnly bool
	Remedy      string
	// LeftOut says why an import leaves it out; "": it does not (VH-13).
	LeftOut string
	// Default and State are for docs/semantics.md: what holds without it, and what it does. RabbitMQ is
	// for docs/compatibility.md: same, better, different or none, and how RabbitMQ's differs.
	Default, State, RabbitMQ string

	// sets is nil where the argument is kept and changes nothing that is in force.
	sets func(*Settings, Value)
}

// Equality says what a redeclaration is compared by.
type Equality uint8

// Most arguments are compared.
const (
	Compared         Equality = iota
	ComparedQuorum            // on quorum queues alone: classic ones take it and it has no effect
	ComparedOnItsOwn          // not as an argument, but for what it means
)

// Rows returns all arguments, in the order in which they are checked.
func Rows() iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		for i := range rows {
			if !yield(&rows[i]) {
				return
			}
		}
	}
}

// Find returns the row of an argument, nil for a name that means nothing to the broker.
func Find(name string) *Row {
	for i := range rows {
		if r := &rows[i]; r.is(name) {
			return r
		}
	}
	return nil
}

// ByKey returns the row of a key of policies, nil if queues have none of that name (PO-2).
func ByKey(key string) *Row {
	for i := range rows {
		if r := &rows[i]; key != "" && r.Key == key {
			return r
		}
	}
	return nil
}

// Names returns those of all arguments, for who looks for the nearest; callers may change it.
func Names() []string {
	out := make([]string, 0, len(rows))
	for i := range rows {
		if r := &rows[i]; !r.prefix() {
			out = append(out, r.Name)
		}
	}
	return out
}

func (r *Row) prefix() bool { return strings.HasSuffix(r.Name, "-") }

func (r *Row) is(name string) bool {
	return r.Name == name || r.prefix() && strings.HasPrefix(name, r.Name)
}

// ComparedOn reports whether a redeclaration of a queue must have the argument the same.
func ComparedOn(name string, classic bool) bool {
	r := Find(name)
	if r == nil {
		return false
	}
	return r.Equality == Compared || r.Equality == ComparedQuorum && !classic
}

// Former are RabbitMQ's arguments of versions before: whoever migrates has them. They are known to
// mean nothing here, and neither checked nor compared. The text says why an import leaves one out; ""
// where it keeps it.
func Former(name string) (leftOut string, is bool) {
	switch name {
	case "x-queue-master-locator":
		return "leaders are spread; x-queue-leader-locator says otherwise", true
	case "x-ha-policy":
		return "every queue is replicated", true
	case "x-ha-policy-params":
		return "", true
	}
	return "", false
}

// LeftOut says why an import leaves out an argument of RabbitMQ's queues; "": it does not (VH-13).
func LeftOut(name string) string {
	if r := Find(name); r != nil {
		return r.LeftOut
	}
	why, _ := Former(name)
	return why
}

// AsksForClassic reports whether a declaration that names no type has arguments that RabbitMQ
// takes for classic queues alone, and so can only mean one.
func AsksForClassic(args message.Table) bool {
	asks := false
	for _, f := range args {
		switch f.Name {
		case QueueType:
			return false
		case MaxPriority, QueueMode, QueueVersion:
			asks = true
		}
	}
	return asks
}

// Error is an argument or property of a declare, or a key of a policy, that is refused
// (PRECONDITION_FAILED).
type Error struct {
	Arg    string // "x-max-length", "durable", ...
	Value  string // as received
	Reason string // what is wrong and what would be right
	// OtherType reports that the argument is one of queues of another type.
	OtherType bool
}

// Error names the argument, its value and the remedy.
func (e *Error) Error() string {
	return fmt.Sprintf("argument %s = %s: %s", e.Arg, e.Value, e.Reason)
}
