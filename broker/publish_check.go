package broker

import (
	"strconv"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// tooLarge refuses a body above MaxBodyBytes (MSG-2).
func tooLarge(m *Publish, most int) error {
	about := aboutMessage(m)
	about.Class, about.Arg, about.Value = failure.PreconditionFailed, "body size", strconv.Itoa(len(m.Body))
	about.Reason = "above this broker's limit of " + strconv.Itoa(most) + " bytes; send a smaller body, or a reference to it"
	return &about
}

// expiration parses a message's TTL and rewrites it in canonical form (MSG-4).
func expiration(m *message.Message) (ttlMs int64, err error) {
	e := m.Expiration
	if e == "" && m.Has&message.HasExpiration == 0 {
		return quorumq.Unlimited, nil
	}
	if ttlMs, err = message.ParseExpiration(e); err != nil {
		return 0, err
	}
	if e[0] == '+' || e[0] == '0' {
		m.Expiration = strconv.FormatInt(ttlMs, 10)
	}
	return ttlMs, nil
}

// routingKeys collects the routing key and the keys of CC and BCC in keys, and removes BCC (MSG-8).
func routingKeys(m *message.Message, key string, keys []string) ([]string, error) {
	keys = append(keys[:0], key)
	m.BCCCount = 0
	if len(m.Headers) > 0 {
		cc, bcc, err := message.SenderSelected(m.Headers)
		if err != nil {
			return keys, err
		}
		keys = append(append(keys, cc...), bcc...)
		m.BCCCount = len(bcc)
		m.Headers = m.Headers.Without("BCC")
	}
	m.RoutingKeys = keys
	return keys, nil
}

// withinLimits is a fast form of message.CheckLimits: it allocates nothing, and leaves out the
// body, which was checked before.
func withinLimits(m *message.Message) bool {
	if len(m.RoutingKeys) > message.MaxRoutingKeys {
		return false
	}
	for _, k := range m.RoutingKeys {
		if len(k) > message.MaxNameBytes {
			return false
		}
	}
	for _, n := range [...]int{
		len(m.Exchange), len(m.ContentType), len(m.ContentEncoding), len(m.CorrelationID), len(m.ReplyTo),
		len(m.MessageID), len(m.Type), len(m.UserID), len(m.AppID),
	} {
		if n > message.MaxNameBytes {
			return false
		}
	}
	return len(m.Headers) == 0 || message.CheckTable("headers", m.Headers) == nil
}

// storedForm returns the bytes of a message that are stored.
func storedForm(m *message.Message) []byte {
	return message.Append(make([]byte, 0, storedSizeHint(m)), m)
}

// What storedSizeHint assumes for parts of a message, in bytes. Too small a value costs a copy,
// nothing else.
const (
	hintHeadBytes  = 64
	hintFieldBytes = 12
)

// storedSizeHint estimates the size of the stored form, mostly from above, so that one allocation
// is enough.
func storedSizeHint(m *message.Message) int {
	n := hintHeadBytes + len(m.Body) + len(m.Exchange) + len(m.ContentType) + len(m.ContentEncoding) + len(m.CorrelationID) +
		len(m.ReplyTo) + len(m.Expiration) + len(m.MessageID) + len(m.Type) + len(m.UserID) + len(m.AppID)
	for _, k := range m.RoutingKeys {
		n += 2 + len(k)
	}
	for i := range m.Headers {
		s, _ := m.Headers[i].Value.AsString()
		n += hintFieldBytes + len(m.Headers[i].Name) + len(s)
	}
	return n
}

// permitUserID refuses a message that claims to come from another user (MSG-3).
func permitUserID(m *Publish, d *permission.SendRight) error {
	id := m.UserID
	if id == "" || d.Any || id == m.Sender.who.User() {
		return nil
	}
	about := aboutMessage(m)
	about.Class, about.Arg, about.Value = failure.PreconditionFailed, "user_id", strconv.Quote(id)
	about.Problem, about.User = failure.ProblemUserID, m.Sender.who.User()
	about.Reason = "the message comes from user " + strconv.Quote(m.Sender.who.User()) + "; send that, none, or get the tag " + identity.TagImpersonator
	return &about
}

// permitKeys checks that all keys of a message are within a topic permission (VH-8); bounds is nil without one.
func permitKeys(m *Publish, keys []string, x *catalog.Exchange, bounds *permission.Grant) error {
	if bounds == nil || !x.HasTopicKeys() {
		return nil
	}
	return permission.Exchange(m.VHost, m.Exchange).KeysWithin(m.Sender.who.User(), keys, bounds)
}
