package amqp

import (
	"errors"
	"fmt"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker/failure"
)

// fault is an error that closes a channel or, if hard is set, the connection (C-4, C-5).
type fault struct {
	code   wire.ReplyCode
	text   string // without the name of the code
	method wire.MethodID
	hard   bool
	cause  error // the error with its remedy, for the log; nil: text says everything
}

// Error returns the text of the close.
func (f *fault) Error() string { return f.code.String() + " - " + f.text }

// refuse returns a fault; its code decides whether it closes the channel or the connection.
func refuse(code wire.ReplyCode, id wire.MethodID, format string, args ...any) *fault {
	return &fault{code: code, text: fmt.Sprintf(format, args...), method: id, hard: code.Hard()}
}

// replyCode returns the code for a class of errors; hard reports that it ends the connection.
func replyCode(class failure.Class) (code wire.ReplyCode, hard bool) {
	switch class {
	case failure.NotFound:
		return wire.NotFound, false
	case failure.AccessRefused:
		return wire.AccessRefused, false
	case failure.ResourceLocked:
		return wire.ResourceLocked, false
	case failure.PreconditionFailed:
		return wire.PreconditionFailed, false
	case failure.NotAllowed:
		return wire.NotAllowed, true
	case failure.NotImplemented:
		return wire.NotImplemented, true
	case failure.Unavailable, failure.ResourceExhausted:
		return wire.ResourceError, false // of the queue, which does not justify ending the connection
	default:
		return wire.InternalError, true
	}
}

// faultOf turns an error of the broker into a fault of a method; nil stays nil.
func faultOf(err error, id wire.MethodID) *fault {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*failure.Error](err); ok {
		code, hard := replyCode(e.Class)
		return &fault{code: code, text: wording(e), method: id, hard: hard, cause: err}
	}
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return &fault{code: e.Code, text: e.Reason, method: id, hard: e.Code.Hard()}
	}
	return &fault{code: wire.ConnectionForced, text: err.Error(), method: id, hard: true}
}

// forced closes the connection to a node that cannot serve it; the client should use another node.
func forced(err error) *fault {
	text := err.Error()
	if e, ok := errors.AsType[*failure.Error](err); ok {
		text = e.Reason
	}
	return &fault{code: wire.ConnectionForced, text: text, hard: true}
}

// hardened makes a fault close the connection, whatever its code says.
func (f *fault) hardened() *fault {
	f.hard = true
	return f
}
