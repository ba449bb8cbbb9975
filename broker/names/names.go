// Package names has the rules for names of objects that clients create (C-3): which names are refused, which are
// reserved for the broker, and how a binding, which has no name, is named. Its functions may be called concurrently;
// errors are those of package failure.
package names

import (
	"strconv"
	"strings"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
)

// Check checks the name of an exchange or queue that is to be created (C-3).
func Check(name string, about failure.Error) error {
	about.Class, about.Arg = failure.PreconditionFailed, "name"
	switch {
	case name == "":
		about.Reason = "is empty; choose a name"
	case len(name) > catalog.MaxNameBytes:
		about.Name, about.Value = name[:catalog.MaxNameBytes], strconv.Itoa(len(name))+" bytes"
		about.Reason = "the limit is " + strconv.Itoa(catalog.MaxNameBytes) + " bytes; choose a shorter name"
	case strings.ContainsRune(name, 0):
		about.Reason = "contains a NUL byte; choose a name without"
	case strings.ToValidUTF8(name, "") != name:
		about.Reason = "is not valid UTF-8"
	case Reserved(name):
		return ErrReserved(about)
	default:
		return nil
	}
	return &about
}

// CheckPlain refuses a name for a new vhost, user or policy that has control characters or bytes of alsoBad, because
// these cause trouble wherever the name is shown. The catalog checks everything else.
func CheckPlain(name, alsoBad string, about failure.Error) error {
	i := strings.IndexFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || strings.ContainsRune(alsoBad, r) })
	if i < 0 {
		return nil
	}
	about.Class, about.Arg, about.Value = failure.PreconditionFailed, "name", strconv.Quote(name)
	about.Reason = "contains " + strconv.Quote(name[i:i+1]) + "; choose a name without"
	return &about
}

// Reserved reports whether clients may neither create nor delete an object with this name.
func Reserved(name string) bool { return strings.HasPrefix(name, "amq.") }

// ErrReserved refuses a reserved name.
func ErrReserved(about failure.Error) error {
	about.Class, about.Arg, about.Problem = failure.AccessRefused, "", failure.ProblemReservedName
	about.Reason = `names that start with "amq." are reserved; choose another`
	return &about
}

// Binding names a binding in errors and in the audit.
func Binding(source, destination string) string { return source + " → " + destination }

// CheckKey checks the routing key of a binding; about names the binding.
func CheckKey(key string, about failure.Error) error {
	about.Class, about.Arg = failure.PreconditionFailed, "routing_key"
	switch {
	case len(key) > catalog.MaxKeyBytes:
		about.Value = strconv.Itoa(len(key)) + " bytes"
		about.Reason = "the limit is " + strconv.Itoa(catalog.MaxKeyBytes) + " bytes"
	case strings.ContainsRune(key, 0):
		about.Reason = "contains a NUL byte"
	default:
		return nil
	}
	return &about
}

// ReplyTo is the name that clients of AMQP 0-9-1 consume from and put into reply_to, so that they get answers without
// declaring a queue (AM-3).
const ReplyTo = "amq.rabbitmq.reply-to"

// IsReply reports whether a name belongs to a queue for answers, or is the address of one. Only the clients that ask
// and answer may see such queues.
func IsReply(name string) bool {
	rest, ok := strings.CutPrefix(name, ReplyTo)
	return ok && rest != "" && (rest[0] == '.' || rest[0] == ':')
}
