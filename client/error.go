package client

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Class is a class of errors (C-4).
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
	// ConnectionForced: an operator closed the connection; the text has the operator and the reason.
	ConnectionForced Class = "CONNECTION_FORCED"
)

// Error is the broker's error about a call or a message. Fields that do not apply are empty.
type Error struct {
	Class Class
	Code  codes.Code // of gRPC; OK if one message in a stream is at fault
	VHost string
	Kind  string // for example "queue"
	Name  string
	Arg   string
	Value string
	Text  string
}

// Error returns the broker's text, with the class in front if the text lacks it.
func (e *Error) Error() string {
	if e.Class == "" || strings.HasPrefix(e.Text, string(e.Class)) {
		return e.Text
	}
	return string(e.Class) + ": " + e.Text
}

// Errors that callers can act on.
var (
	// ErrClosed: the client, publisher or consumer was closed.
	ErrClosed = errors.New("client: closed")
	// ErrStale: the delivery's stream is lost, or the delivery is settled. The queue delivers the
	// message again unless it was settled in time.
	ErrStale = errors.New("client: delivery is stale")
	// ErrCancelled: the queue ended the consumer, for example because the queue was deleted.
	ErrCancelled = errors.New("client: consumer was cancelled")
	// ErrUnknownOutcome: the message may or may not be stored.
	ErrUnknownOutcome = errors.New("client: outcome unknown")
)

// ClassOf returns the class of an error, "" if it has none.
func ClassOf(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return ""
}

// fromGRPC converts a gRPC status to *Error; other errors stay.
func fromGRPC(err error) error {
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	e := &Error{Code: s.Code(), Text: s.Message()}
	if s.Code() == codes.Unavailable {
		e.Class = Unavailable
	}
	for _, d := range s.Details() {
		info, isInfo := d.(*errdetails.ErrorInfo)
		if isInfo {
			e.Class = Class(info.GetReason())
			e.fill(info.GetMetadata())
		}
	}
	if e.Class == "" {
		e.Text = fmt.Sprintf("%v: %s", s.Code(), s.Message())
	}
	return e
}

// fromDetail converts the broker's error about one message. It ignores metadata that it does not
// know, so that newer brokers can add some.
func fromDetail(d *brokerv1.ErrorDetail) error {
	e := &Error{Class: Class(d.GetClass()), Text: d.GetText()}
	e.fill(d.GetMetadata())
	return e
}

// fill sets the fields for which the broker sends metadata.
func (e *Error) fill(metadata map[string]string) {
	e.VHost, e.Kind, e.Name = metadata["vhost"], metadata["kind"], metadata["name"]
	e.Arg, e.Value = metadata["arg"], metadata["value"]
}

// askedToWait returns how long a node without room asks the client to wait before it tries again;
// 0: the node does not ask.
func askedToWait(err error) time.Duration {
	s := status.Convert(err)
	if s.Code() != codes.ResourceExhausted {
		return 0
	}
	for _, d := range s.Details() {
		if info, is := d.(*errdetails.RetryInfo); is {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// passing reports whether another try, perhaps on another node, can help.
func passing(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Aborted, codes.Canceled, codes.DeadlineExceeded, codes.Unknown, codes.Internal:
		return true
	default:
		return false
	}
}
