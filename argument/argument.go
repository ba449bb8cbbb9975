// Package argument is the table of the arguments of queues. A row is the single definition of an
// argument: its names as an argument and as a policy key, its permitted values, who may set it, how
// values from several sources merge, whether a redeclaration must repeat it, and what it sets.
//
// The checks of declares and policies, their errors, the settings in force for a queue, the list of
// known names and the table of docs/semantics.md all derive from it. The package only computes; all
// of it may be used concurrently.
package argument

import (
	"fmt"
	"iter"
	"strings"

	"github.com/quorate/quorate/message"
)

// Names of arguments that code refers to by name.
const (
	QueueType     = "x-queue-type"
	MaxPriority   = "x-max-priority" // read from the queue's record (PR-1)
	QueueMode     = "x-queue-mode"
	QueueVersion  = "x-queue-version"
	OnDelete      = "x-on-delete" // read from the queue's record, too
	Overflow      = "x-overflow"
	LeaderLocator = "x-queue-leader-locator"
	MessageRate   = "x-max-message-rate" // looked up before a queue has any rate limit (VH-15)
	ByteRate      = "x-max-byte-rate"

	// DeadLetters is the prefix of arguments about dead-lettering.
	DeadLetters = "x-dead-letter-"
	// Streams is the prefix of arguments of streams.
	Streams = "x-stream-"

	dlExchange   = "x-dead-letter-exchange"
	dlKey        = "x-dead-letter-routing-key"
	dlStrategy   = "x-dead-letter-strategy"
	backlogLimit = "x-dead-letter-backlog-limit"
	retryType    = "x-delayed-retry-type"
	retryMin     = "x-delayed-retry-min"
	retryMax     = "x-delayed-retry-max"
)

// OnDeleteDeadLetter is the value of OnDelete that dead-letters what a deleted queue holds.
const OnDeleteDeadLetter = "dead-letter"

// Row is one argument.
type Row struct {
	// Name is the name as an argument. One that ends with "-" stands for all that begin with it.
	Name string
	// Key is the name as a policy key; "": only a declare can set it.
	Key string
	// Operators reports that operator policies may set it too (PO-5).
	Operators bool
	// Merging is how values from several sources become one (PO-6, PO-7).
	Merging Merging
	// Equality is how a redeclaration is compared.
	Equality Equality
	// Values are the permitted values.
	Values Values
	// ClassicOnly arguments are refused on quorum queues (D-2). The text is a remedy besides leaving
	// them out.
	ClassicOnly bool
	Remedy      string
	// LeftOut is why an import leaves it out; "": it does not (VH-13).
	LeftOut string
	// Default and State are for docs/semantics.md: the value without the argument, and its effect.
	// RabbitMQ is for docs/compatibility.md: same, better, different or none, and how RabbitMQ's
	// differs.
	Default, State, RabbitMQ string

	// sets applies the value; nil if the argument is stored and has no effect.
	sets func(*Settings, Value)
}

// Equality is what a redeclaration is compared by.
type Equality uint8

// Most arguments are compared.
const (
	Compared         Equality = iota
	ComparedQuorum            // on quorum queues alone: classic queues accept the argument without effect
	ComparedOnItsOwn          // not as an argument, but by its meaning
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

// Find returns the row of an argument; nil for a name that the broker does not know.
func Find(name string) *Row {
	for i := range rows {
		if r := &rows[i]; r.is(name) {
			return r
		}
	}
	return nil
}

// ByKey returns the row of a policy key, or nil if no policy of queues has it (PO-2).
func ByKey(key string) *Row {
	for i := range rows {
		if r := &rows[i]; key != "" && r.Key == key {
			return r
		}
	}
	return nil
}

// Names returns the names of all arguments, to find the nearest one to a misspelt name. Callers may
// change the slice.
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

// ComparedOn reports whether a redeclaration of a queue must repeat the argument.
func ComparedOn(name string, classic bool) bool {
	r := Find(name)
	if r == nil {
		return false
	}
	return r.Equality == Compared || r.Equality == ComparedQuorum && !classic
}

// Former are arguments of earlier RabbitMQ versions, which migrating clients still send. They have
// no effect here and are neither checked nor compared. The text is why an import leaves one out; ""
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

// LeftOut returns why an import leaves out an argument of RabbitMQ's queues; "": it does not
// (VH-13).
func LeftOut(name string) string {
	if r := Find(name); r != nil {
		return r.LeftOut
	}
	why, _ := Former(name)
	return why
}

// AsksForClassic reports whether a declaration that names no type has arguments that RabbitMQ
// accepts on classic queues only, and so can only mean a classic queue.
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

// Error is a refused argument or property of a declare, or a refused policy key
// (PRECONDITION_FAILED).
type Error struct {
	Arg    string // "x-max-length", "durable", ...
	Value  string // as received
	Reason string // what is wrong and what would be right
	// OtherType reports that the argument belongs to queues of another type.
	OtherType bool
}

// Error names the argument, its value and the remedy.
func (e *Error) Error() string {
	return fmt.Sprintf("argument %s = %s: %s", e.Arg, e.Value, e.Reason)
}
