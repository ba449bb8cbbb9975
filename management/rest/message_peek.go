package rest

import (
	"strconv"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/messages"
	"github.com/quorate/quorate/message"
)

// partNamed reads the name of a part of a queue; "" is ready.
func partNamed(name string) (broker.Part, error) {
	switch name {
	case "", "ready":
		return broker.PartReady, nil
	case "unsettled":
		return broker.PartUnsettled, nil
	case "backlog":
		return broker.PartBacklog, nil
	case "delayed":
		return broker.PartDelayed, nil
	}
	return 0, bad("part", name, "is not known; want ready, unsettled, backlog or delayed")
}

// filterOfQuery reads which messages a query chooses: message_id and number, each as often as need
// be, headers, a JSON object, dead, death_queue, death_reason and death_exchange.
func (c *call) filterOfQuery() (messages.Filter, error) {
	f := messages.Filter{Filter: message.Filter{
		MessageIDs: c.all("message_id"), Dead: c.text("dead") == "true",
		Death: message.DeathOrigin{Queue: c.text("death_queue"), Reason: c.text("death_reason"), Exchange: c.text("death_exchange")},
	}}
	for _, text := range c.all("number") {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return f, bad("number", text, "want the number of a message, as the list of messages shows it")
		}
		f.Numbers = append(f.Numbers, n)
	}
	if c.text("headers") == "" {
		return f, nil
	}
	o, err := parse([]byte(c.text("headers")))
	if err != nil {
		return f, bad("headers", c.text("headers"), "is not a JSON object")
	}
	f.Headers, err = toTableOf("headers", o)
	return f, err
}

// The ways to show bodies, as the parameter bodies names them.
const (
	bodiesAsText   = "text"   // base64 where it is no text
	bodiesAsBase64 = "base64" // always
)

// peekQuery are the parameters of a request to show messages.
func peekQuery() []parameter {
	return []parameter{
		textParam("part", "ready, unsettled, backlog or delayed; ready if it is left out"),
		repeated(textParam("message_id", "messages with this message_id")), repeated(countParam("number", "messages with this number")),
		textParam("headers", "messages with these headers, a JSON object"), flagParam("dead", "true: dead letters"),
		textParam("death_queue", "dead letters that died in this queue"), textParam("death_reason", "dead letters that died for this reason"),
		textParam("death_exchange", "dead letters that were published to this exchange"),
		countParam("skip", "how many messages that are chosen are passed over"), countParam("from_number", "begins with the message of this number"),
		countParam("limit", "how many messages to show at most"), textParam("page_token", "next_page_token of the page before"),
		textParam("bodies", "text or base64: shows bodies too"),
	}
}

// peekOf reads a request to show messages.
func (c *call) peekOf() (broker.Peek, error) {
	p := broker.Peek{VHost: c.vhost(), Queue: c.name(), Token: c.text("page_token")}
	var err error
	if p.Part, err = partNamed(c.text("part")); err != nil {
		return p, err
	}
	if p.Filter, err = c.filterOfQuery(); err != nil {
		return p, err
	}
	switch c.text("bodies") {
	case "":
	case bodiesAsText, bodiesAsBase64:
		p.Bodies = true
	default:
		return p, bad("bodies", c.text("bodies"), "want text or base64, or leave it out")
	}
	limit, err := c.count("limit", broker.MaxPeekLimit)
	if err != nil {
		return p, err
	}
	p.Limit = int(limit)
	const most = 1<<63 - 1
	if p.Skip, err = c.count("skip", most); err != nil {
		return p, err
	}
	p.FromNumber, err = c.count("from_number", most)
	return p, err
}

// peekMessages may return an empty page with a token: a filter that matches little examines many messages.
func peekMessages(c *call) (reply, error) {
	p, err := c.peekOf()
	if err != nil {
		return reply{}, err
	}
	page, next, looked, err := c.api.Broker.Peek(c.Context(), p)
	if err != nil {
		return reply{}, err
	}
	messages := make([]object, len(page))
	for i := range page {
		messages[i] = ofPeeked(&page[i])
		if p.Bodies {
			asBase64 := c.text("bodies") == bodiesAsBase64
			messages[i]["payload"], messages[i]["payload_encoding"] = encoded(page[i].Message.Body, asBase64)
		}
	}
	return reply{body: object{"messages": messages, "next_page_token": next, "looked": looked}}, nil
}

// ofPeeked shows a message without its body. It leaves out what a part of a queue does not have.
func ofPeeked(p *broker.Peeked) object {
	m := &p.Message
	out := object{
		"number": p.Number, "exchange": m.Exchange, "routing_key": m.PrimaryKey(), "redelivered": p.Redelivered,
		"delivery_count": p.DeliveryCount, "acquired_count": p.AcquiredCount, "payload_bytes": p.BodyBytes,
		"at_ms": p.AtMs, "priority": p.Priority, "annotations": shown(m.Annotations),
		"properties": ofProperties(&m.Properties, p.Headers(true)), // the counts have fields of their own
	}
	for name, ms := range map[string]int64{"expires_ms": p.ExpiresMs, "due_ms": p.DueMs} {
		if ms != 0 {
			out[name] = ms
		}
	}
	for name, v := range map[string]string{"consumer_node": p.ConsumerNode, "reason": p.Reason, "destination": p.Destination} {
		if v != "" {
			out[name] = v
		}
	}
	return out
}
