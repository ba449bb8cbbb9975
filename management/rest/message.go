package rest

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/failure"
)

// messageRoutes publish and get messages.
func messageRoutes() []route {
	return []route{
		{method: "POST", path: "/api/exchanges/{vhost}/{name}/publish", tag: management, serve: withMessages(publish), says: "publishes a message and waits for the confirm"},
		{method: "POST", path: "/api/queues/{vhost}/{name}/get", tag: management, serve: withMessages(getMessages), says: "takes messages from a queue, and may put them back"},
	}
}

// Bounds of waiting.
const (
	quotaPatience   = 5 * time.Second // until quotas let a message through (VH-14)
	confirmPatience = 30 * time.Second
)

// maxPublishBody bounds the body of a request with a message, in bytes: base64 makes four of three.
func (c *call) maxPublishBody() int64 {
	return MaxBodyBytes + int64(base64.StdEncoding.EncodedLen(c.api.Broker.MaxBodyBytes()))
}

// publication reads the message of the request's body.
func (c *call) publication() (*broker.Publish, error) {
	text, err := c.read(c.maxPublishBody())
	if err != nil {
		return nil, err
	}
	body, err := parse(text)
	if err != nil {
		return nil, err
	}
	p := &broker.Publish{VHost: c.vhost(), Mandatory: true}
	p.Exchange = c.exchange()
	var errs [4]error
	p.RoutingKey, errs[0] = body.need("routing_key")
	p.Body, errs[1] = payload(body)
	properties, err := body.within("properties")
	p.Properties, p.Headers, errs[2] = propertiesFrom(properties)
	errs[3] = err
	return p, errors.Join(errs[:]...)
}

// payload decodes the body of a message.
func payload(body fields) ([]byte, error) {
	text, err := body.need("payload")
	if err != nil {
		return nil, err
	}
	encoding, err := body.text("payload_encoding", "string")
	switch {
	case err != nil:
		return nil, err
	case encoding == "string":
		return []byte(text), nil
	case encoding != "base64":
		return nil, bad("payload_encoding", encoding, "want string or base64")
	}
	out, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, bad("payload", "", "is no base64: "+err.Error())
	}
	return out, nil
}

// publish answers whether the message was routed to a queue.
func publish(c *call) (reply, error) {
	p, err := c.publication()
	if err != nil {
		return reply{}, err
	}
	b := c.api.Broker
	if a := b.Alarms.Now(); a != nil { // PUB-10
		return reply{}, &failure.Error{Class: failure.ResourceExhausted, Kind: "message", VHost: p.VHost, Reason: a.Reason}
	}
	if p.Sender, err = b.NewSender(c.Context(), new(broker.SendRights)); err != nil {
		return reply{}, err
	}
	ctx, stop := context.WithTimeout(c.Context(), quotaPatience)
	defer stop()
	if err := b.AwaitQuotas(ctx, p, nil); err != nil {
		return reply{}, err
	}
	ctx, stop = context.WithTimeout(c.Context(), confirmPatience)
	defer stop()
	results := make(chan broker.Result, 1)
	b.Publish(ctx, p, func(r broker.Result) { results <- r })
	select {
	case r := <-results:
		return routed(p, &r)
	case <-ctx.Done():
		return reply{}, unconfirmed(p, "no queue has confirmed it in time, so the outcome is unknown; look into the queue, then repeat")
	}
}

// unconfirmed is the error about a message that no queue may have stored.
func unconfirmed(p *broker.Publish, reason string) error {
	return &failure.Error{Class: failure.Unavailable, Kind: "message", VHost: p.VHost, Reason: reason}
}

// routed answers with the outcome of a publish.
func routed(p *broker.Publish, r *broker.Result) (reply, error) {
	switch r.Kind {
	case broker.Confirmed, broker.Returned:
		return reply{body: object{"routed": r.Kind == broker.Confirmed}}, nil
	case broker.Invalid:
		return reply{}, r.Err
	case broker.Rejected:
	}
	reasons, full := make([]string, len(r.Rejections)), len(r.Rejections) > 0
	for i, x := range r.Rejections {
		reasons[i] = "queue " + strconv.Quote(x.Queue) + " " + cmp.Or(x.Reason, rejectionText(x.Cause))
		full = full && x.Cause == broker.CauseMaxLen
	}
	text := strings.Join(reasons, "; ")
	if full {
		return reply{}, bad("message", "", "was rejected: "+text)
	}
	return reply{}, unconfirmed(p, text)
}

// rejectionText is why a queue did not take a message.
func rejectionText(x broker.RejectionCause) string {
	switch x {
	case broker.CauseMaxLen:
		return "has reached its length limit; consume from it, or raise the limit"
	case broker.CauseUnavailable:
		return "has no leader in time; see that most of its members run, and repeat"
	case broker.CauseNoSpace:
		return "has too little space on disk"
	case broker.CauseUnknown:
	}
	return "may have stored it, but its leader was lost; look into the queue, then repeat"
}
