package amqp

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker"
)

// fault closes a channel or, if its code is a hard one, the connection (C-4, C-5).
type fault struct {
	code   wire.ReplyCode
	text   string // without the code's name
	method wire.MethodID
	hard   bool
}

// Error returns the text of the close.
func (f *fault) Error() string { return f.code.String() + " - " + f.text }

// refuse is a fault of the code's own scope.
func refuse(code wire.ReplyCode, id wire.MethodID, format string, args ...any) *fault {
	return &fault{code: code, text: fmt.Sprintf(format, args...), method: id, hard: code.Hard()}
}

// replyCode returns the code for a class of errors; hard says that the connection ends with it.
func replyCode(class broker.Class) (code wire.ReplyCode, hard bool) {
	switch class {
	case broker.NotFound:
		return wire.NotFound, false
	case broker.AccessRefused:
		return wire.AccessRefused, false
	case broker.ResourceLocked:
		return wire.ResourceLocked, false
	case broker.PreconditionFailed:
		return wire.PreconditionFailed, false
	case broker.NotAllowed:
		return wire.NotAllowed, true
	case broker.NotImplemented:
		return wire.NotImplemented, true
	case broker.Unavailable, broker.ResourceExhausted:
		return wire.ResourceError, false // of the queue, which is no reason to end the connection
	default:
		return wire.InternalError, true
	}
}

// faultOf turns an error of the broker into a fault of a method; nil stays nil.
func faultOf(err error, id wire.MethodID) *fault {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*broker.Error](err); ok {
		code, hard := replyCode(e.Class)
		return &fault{code: code, text: wording(e), method: id, hard: hard}
	}
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return &fault{code: e.Code, text: e.Reason, method: id, hard: e.Code.Hard()}
	}
	return &fault{code: wire.ConnectionForced, text: err.Error(), method: id, hard: true}
}

// wording puts an error into the words that clients and people search for.
func wording(e *broker.Error) string {
	switch {
	case e.Class == broker.NotFound && (e.Kind == "queue" || e.Kind == "exchange"):
		return fmt.Sprintf("no %s '%s' in vhost '%s'", e.Kind, e.Name, e.VHost)
	case e.Class == broker.ResourceLocked && e.Arg == "exclusive":
		return fmt.Sprintf("cannot obtain exclusive access to locked queue '%s' in vhost '%s'. It could be originally declared "+
			"on another connection or the exclusive property value does not match that of the original declaration.", e.Name, e.VHost)
	case e.Current != "" && e.Class == broker.PreconditionFailed:
		return fmt.Sprintf("inequivalent arg '%s' for %s '%s' in vhost '%s': received '%s' but current is '%s'",
			e.Arg, e.Kind, e.Name, e.VHost, strings.Trim(e.Value, `"`), strings.Trim(e.Current, `"`))
	}
	text := e.Error()
	return strings.TrimPrefix(text, string(e.Class)+": ")
}

func (f *fault) hardened() *fault {
	f.hard = true
	return f
}
