package broker

import (
	"strconv"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

func aboutMessage(m *Publish) failure.Error { return failure.Error{Kind: "message", VHost: m.VHost} }

// tooLarge is the refusal of a body above MaxBodyBytes (MSG-2).
func (p *publishing) tooLarge(m *Publish) error {
	about := aboutMessage(m)
	about.Class, about.Arg, about.Value = failure.PreconditionFailed, "body size", strconv.Itoa(len(m.Body))
	about.Reason = "above this broker's limit of " + strconv.Itoa(p.b.cfg.MaxBodyBytes) + " bytes; send a smaller body, or a reference to it"
	return &about
}

// checkExchange returns an exchange, and refuses one that is missing or internal.
func checkExchange(v *catalog.View, vhost, name string) (*catalog.Exchange, error) {
	x, ok := v.Exchange(vhost, name)
	if !ok {
		_, err := v.Route(vhost, name, &catalog.Publication{}, nil) // names the missing vhost or exchange
		return nil, failure.Translate(err, failure.Error{})
	}
	if x.Internal {
		return nil, &failure.Error{
			Class: failure.AccessRefused, VHost: vhost, Kind: "exchange", Name: name, Problem: failure.ProblemInternalExchange,
			Reason: "is internal: only exchanges bound to it may publish to it",
		}
	}
	return x, nil
}

// expiration parses the message's TTL and makes it canonical (MSG-4).
func (p *publishing) expiration() (ttlMs int64, err error) {
	e := p.msg.Expiration
	if e == "" && p.msg.Has&message.HasExpiration == 0 {
		return quorumq.Unlimited, nil
	}
	if ttlMs, err = message.ParseExpiration(e); err != nil {
		return 0, err
	}
	if e[0] == '+' || e[0] == '0' {
		p.msg.Expiration = strconv.FormatInt(ttlMs, 10)
	}
	return ttlMs, nil
}

// routingKeys gathers the key with those of CC and BCC, and removes BCC (MSG-8).
func (p *publishing) routingKeys(m *Publish) error {
	p.keys = append(p.keys[:0], m.RoutingKey)
	p.msg.BCCCount = 0
	if len(m.Headers) > 0 {
		cc, bcc, err := message.SenderSelected(m.Headers)
		if err != nil {
			return err
		}
		p.keys = append(append(p.keys, cc...), bcc...)
		p.msg.BCCCount = len(bcc)
		p.msg.Headers = m.Headers.Without("BCC")
	}
	p.msg.RoutingKeys = p.keys
	return nil
}

// withinLimits is the quick form of message.CheckLimits for a message whose body was
// checked: it allocates nothing.
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

// Bytes per part of the guess of storedSizeHint; too small costs a copy, not more.
const (
	hintHeadBytes  = 64
	hintFieldBytes = 12
)

// storedSizeHint guesses the size of the stored form, mostly from above.
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
