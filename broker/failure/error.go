// Package failure holds the errors that the broker returns to listeners: their classes, what they name, and how errors
// of the packages below are translated into them. Translate and similar functions create them; afterwards they are
// values that any goroutine may read.
package failure

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/cluster/peer"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/message"
)

// Class is an error class (C-4). Its text is the name of AMQP's constant, if AMQP has one.
type Class string

// The classes.
const (
	NotFound           Class = "NOT_FOUND"
	AccessRefused      Class = "ACCESS_REFUSED"
	ResourceLocked     Class = "RESOURCE_LOCKED"
	PreconditionFailed Class = "PRECONDITION_FAILED"
	NotAllowed         Class = "NOT_ALLOWED"
	NotImplemented     Class = "NOT_IMPLEMENTED"
	ResourceExhausted  Class = "RESOURCE_EXHAUSTED"
	Unavailable        Class = "UNAVAILABLE"
	ConnectionForced   Class = "CONNECTION_FORCED"
	Internal           Class = "INTERNAL_ERROR"
)

// RetryAfter is how long a client should wait before it tries again after Unavailable.
const RetryAfter = 250 * time.Millisecond

// spaceRetryAfter is the same while disks lack space. It is longer, because nodes check their disks every second.
const spaceRetryAfter = 2 * time.Second

// The Reasons of errors about a queue that is being deleted.
const (
	// DeletingReason is that of a queue whose deletion is decided.
	DeletingReason = "is being deleted; declare it again when it is gone"
	// DrainDeletingReason is that of a queue that dead-letters its messages first.
	DrainDeletingReason = "is being deleted: its messages are dead-lettered first; declare it again when it is gone"
)

// Error is every error that the broker returns to a listener, except those of the caller's own context. Callers decide
// by Class.
type Error struct {
	Class Class
	VHost string
	Kind  string // "queue", "exchange", "message", ...
	Name  string
	Arg   string // the argument or property at fault, if there is one
	Value string // its value as received
	// Current is the value that exists, if a declare differs from it; else it is empty.
	Current string
	// Reason is what is wrong, and the remedy.
	Reason string
	// Problem is the kind of mistake, for protocols that have their own words for it. User and Right are part of it.
	Problem     Problem
	User, Right string
	// Received and Existing are the declared and the existing argument, if a declare differs in an argument; nil: the
	// argument is absent.
	Received, Existing *message.Value
	// State reports, with PreconditionFailed, that the request is well formed but conflicts with what exists.
	State bool
	// Unauthenticated reports, with AccessRefused, that the caller is not known.
	Unauthenticated bool
	// RetryAfter is set with Unavailable and ResourceExhausted: how long a client should wait.
	RetryAfter time.Duration

	Cause error // the error that this one was translated from; nil: none
}

// Error returns the class, the object, its vhost, the argument and the reason.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(string(e.Class))
	b.WriteByte(':')
	if e.Kind != "" {
		b.WriteString(" " + e.Kind)
		if e.Name != "" || e.Kind == "queue" || e.Kind == "exchange" {
			b.WriteString(" " + strconv.Quote(e.Name))
		}
		if e.VHost != "" && e.Kind != "vhost" {
			b.WriteString(" in vhost " + strconv.Quote(e.VHost))
		}
		b.WriteByte(':')
	}
	if e.Arg != "" {
		b.WriteString(" " + e.Arg)
		if e.Value != "" {
			b.WriteString(" = " + e.Value)
		}
		b.WriteByte(':')
	}
	b.WriteString(" " + e.Reason)
	return b.String()
}

// Unwrap returns the error that this one was translated from, or nil.
func (e *Error) Unwrap() error { return e.Cause }

// Translate turns an error of the packages below into an *Error; about names the object of the request. Errors of the
// caller's context and nil stay as they are.
func Translate(err error, about Error) error {
	if err == nil {
		return nil // here, so that the usual case costs nothing
	}
	return classify(err, about)
}

// classify is Translate of an error that is not nil. The first case that matches decides, because a wrapped error may
// match several.
func classify(err error, about Error) error {
	var own *Error
	var refused *catalog.Error
	var field *message.FieldError
	about.Cause = err
	switch {
	case errors.As(err, &own):
		return err
	case errors.As(err, &refused):
		return FromCatalog(refused)
	case errors.As(err, &field):
		about.Class, about.Arg, about.Value, about.Reason = PreconditionFailed, field.Field, field.Value, field.Reason
	case errors.Is(err, operation.ErrUnknown):
		about.Class, about.Reason = NotFound, err.Error()
	case errors.Is(err, operation.ErrEnded):
		about.Class, about.State, about.Reason = PreconditionFailed, true, err.Error()
	case errors.Is(err, operation.ErrBusy):
		about.Class, about.Reason = ResourceLocked, err.Error()
	case errors.Is(err, operation.ErrClosed):
		about.Class, about.RetryAfter, about.Reason = Unavailable, RetryAfter, "this node is stopping; use another node"
	case errors.Is(err, metadata.ErrNotFinalisable):
		about.Class, about.State, about.Reason = PreconditionFailed, true, err.Error()
	case errors.Is(err, peer.ErrUnreachable):
		about.Class, about.RetryAfter, about.Reason = Unavailable, RetryAfter, err.Error()
	case errors.Is(err, traffic.ErrNoSuchQueue):
		about.Class, about.Reason = NotFound, "does not exist; declare it first"
	case errors.Is(err, traffic.ErrDrainDeleting):
		about.Class, about.Reason = NotFound, DeletingReason
	case errors.Is(err, traffic.ErrExclusive): // CO-2
		about.Class, about.Problem = AccessRefused, ProblemExclusiveUse
		about.Reason = "has consumers or an exclusive one; consume without exclusive, or end the other consumers first"
	case errors.Is(err, traffic.ErrSingleActive): // DEL-5
		about.Class, about.Problem = ResourceLocked, ProblemSingleActive
		about.Reason = "has a single active consumer, so messages cannot be taken one by one; consume instead"
	case errors.Is(err, traffic.ErrConsumerGone):
		about.Class, about.State = PreconditionFailed, true
		about.Reason = "the consumer, or its hold on the message, has ended and the message is back in the queue; consume or get again"
	case errors.Is(err, traffic.ErrUndelivered): // AM-8
		about.Class, about.RetryAfter = Unavailable, RetryAfter
		about.Reason = "no leader could be reached in time for the last deliveries of the cancelled consumer, so what it holds returns to the queue; " +
			"consume again, or see that most of its members run"
	case errors.Is(err, traffic.ErrNotHeld): // G-22
		about.Class, about.State = PreconditionFailed, true
		about.Reason = "the message is not held any more: an earlier try settled it, or it is back in the queue; drop what came of it, and get again"
	case errors.Is(err, disk.ErrNoSpace):
		about.Class, about.Reason, about.RetryAfter = ResourceExhausted, err.Error(), spaceRetryAfter
	case errors.Is(err, traffic.ErrTooManyMoves):
		about.Class, about.Reason, about.RetryAfter = ResourceExhausted, err.Error(), RetryAfter
	case errors.Is(err, traffic.ErrClosed):
		about.Class, about.RetryAfter = Unavailable, RetryAfter
		about.Reason = "this node is stopping; use another node"
	case errors.Is(err, traffic.ErrNotLed): // RE-1
		about.Class, about.RetryAfter = Unavailable, RetryAfter
		about.Reason = "is declared, but got no leader in time; see that most of its members run and declare it again, or delete it"
	case errors.Is(err, traffic.ErrUnknownOutcome):
		about.Class, about.RetryAfter = Unavailable, RetryAfter
		about.Reason = "the leader was lost and the outcome is unknown; look at the state, then repeat"
	case errors.Is(err, traffic.ErrNotExported): // the nodes' reasons, such as a full disk, name the remedy
		about.Class, about.RetryAfter, about.Reason = Unavailable, RetryAfter, err.Error()
	case errors.Is(err, traffic.ErrUnavailable):
		about.Class, about.RetryAfter = Unavailable, RetryAfter
		about.Reason = "no leader could be reached in time, nothing was changed; retry, or see that most of its members run"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	default:
		about.Class, about.Reason = Internal, err.Error()
	}
	return &about
}

// BadPageToken refuses a page token that no page has given.
func BadPageToken(token string) error {
	return &Error{
		Class: PreconditionFailed, Kind: "page", Arg: "page_token", Value: token,
		Reason: "is not one that a page before gave; send next_page_token back unchanged, or leave it empty",
	}
}

// FromCatalog turns a refusal by the catalog into an *Error.
func FromCatalog(c *catalog.Error) *Error {
	e := &Error{VHost: c.VHost, Kind: c.Kind, Name: c.Name, Arg: c.Arg, Value: c.Value, Current: c.Current, Reason: c.Reason, Cause: c}
	switch c.Code {
	case catalog.CodeNotFound:
		e.Class = NotFound
	case catalog.CodeAccessRefused:
		e.Class = AccessRefused
	case catalog.CodeResourceLocked:
		e.Class = ResourceLocked
	case catalog.CodePreconditionFailed:
		e.Class = PreconditionFailed
	default:
		e.Class = Internal
	}
	return e
}

// AsState marks a refusal as one that comes from what exists, not from the form of the request.
func AsState(err error) error {
	var e *Error
	if errors.As(err, &e) && e.Class == PreconditionFailed {
		e.State = true
	}
	return err
}
