package catalog

import (
	"strconv"
	"strings"

	"github.com/quorate/quorate/id"
)

// Reply is the answer to one command.
type Reply struct {
	Err     *Error      // nil when the command was carried out
	Index   uint64      // index from which on a view shows the result
	UID     id.QueueUID // of the queue that was declared, deleted or changed
	Created bool        // the queue, exchange, binding or node is new
	Deleted bool        // the queue, exchange, binding or node existed and was deleted
	// Repeated is set by the proposer and has no byte form: an earlier attempt than the answered one
	// may have taken effect, which can make Created and Deleted false.
	Repeated bool
}

// ErrorCode is the class of a refusal (C-4).
type ErrorCode uint8

// The classes; the numbers are those of the byte form.
const (
	CodeNotFound ErrorCode = iota + 1
	CodeAccessRefused
	CodeResourceLocked
	CodePreconditionFailed
)

// String returns the class as AMQP names it, for example "NOT_FOUND".
func (c ErrorCode) String() string {
	switch c {
	case CodeNotFound:
		return "NOT_FOUND"
	case CodeAccessRefused:
		return "ACCESS_REFUSED"
	case CodeResourceLocked:
		return "RESOURCE_LOCKED"
	case CodePreconditionFailed:
		return "PRECONDITION_FAILED"
	}
	return "CODE_" + strconv.Itoa(int(c))
}

// Error is a refused command or lookup (C-4). Callers act on Code.
type Error struct {
	Code  ErrorCode
	Kind  string // "queue", "exchange", "vhost", "node", ...
	Name  string
	VHost string // empty for objects outside of vhosts
	Arg   string // the argument or property at fault, if any
	Value string // its value as received
	// Current is the existing value where a redeclaration differs; otherwise empty.
	Current string
	Reason  string // what is wrong, and the remedy
}

// Error returns the class, the object, its vhost, the argument and the reason.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Code.String())
	b.WriteString(": ")
	b.WriteString(e.Kind)
	b.WriteByte(' ')
	b.WriteString(strconv.Quote(e.Name))
	if e.VHost != "" && e.Kind != "vhost" {
		b.WriteString(" in vhost ")
		b.WriteString(strconv.Quote(e.VHost))
	}
	if e.Arg != "" {
		b.WriteString(": ")
		b.WriteString(e.Arg)
		if e.Value != "" {
			b.WriteString(" = ")
			b.WriteString(e.Value)
		}
	}
	b.WriteString(": ")
	b.WriteString(e.Reason)
	return b.String()
}
