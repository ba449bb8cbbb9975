package rest

import (
	"encoding/base64"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/quorate/quorate/broker"
)

// Bounds of one request that gets messages. It ends with the message that reaches maxGetBytes.
const (
	maxGetMessages = 1000
	maxGetBytes    = 16 << 20
)

// wish is what a request to get messages asks for.
type wish struct {
	count    int64
	outcome  broker.Outcome // of all messages, after the last one is taken
	failed   bool           // whether a return counts as a failed delivery (D-11)
	base64   bool           // always, not only for bodies that are no text
	truncate int64          // how many bytes of a body are shown; -1: all
}

// wish reads the request's body.
func (c *call) wish() (w wish, err error) {
	body, err := c.object()
	if err != nil {
		return w, err
	}
	var errs [6]error
	w.count, errs[0] = body.number("count", 1)
	if errs[0] == nil && (w.count < 1 || w.count > maxGetMessages) {
		errs[0] = bad("count", strconv.FormatInt(w.count, 10), "want 1 to "+strconv.Itoa(maxGetMessages))
	}
	mode, err := body.need("ackmode")
	if errs[1] = err; err == nil {
		errs[2] = w.setMode(mode)
	}
	encoding, err := body.text("encoding", "auto")
	errs[3] = err
	if w.base64 = encoding == "base64"; err == nil && !w.base64 && encoding != "auto" {
		errs[4] = bad("encoding", encoding, "want auto or base64")
	}
	w.truncate, errs[5] = body.number("truncate", -1)
	return w, errors.Join(errs[:]...)
}

// setMode sets the outcome for the messages, in RabbitMQ's words.
func (w *wish) setMode(mode string) error {
	switch mode {
	case "ack_requeue_false":
		w.outcome = broker.Ack
	case "reject_requeue_false":
		w.outcome, w.failed = broker.Discard, true
	case "ack_requeue_true":
		w.outcome = broker.Requeue
	case "reject_requeue_true":
		w.outcome, w.failed = broker.Requeue, true
	default:
		return bad("ackmode", mode, "want ack_requeue_true, reject_requeue_true, ack_requeue_false or reject_requeue_false")
	}
	return nil
}

// getMessages takes messages, then decides about all of them, so that none is taken twice. It shows only those that it
// has decided about.
func getMessages(c *call) (reply, error) {
	w, err := c.wish()
	if err != nil {
		return reply{}, err
	}
	all, err := c.take(w.count)
	if err != nil {
		return reply{}, err
	}
	items := make([]object, 0, len(all))
	for i := range all {
		if err = c.api.Broker.SettleToken(c.Context(), all[i].Token, w.outcome, w.failed, nil, broker.Delay{}); err != nil {
			c.giveBack(all[i:])
			break
		}
		items = append(items, w.show(&all[i]))
	}
	if len(items) == 0 && err != nil {
		return reply{}, err
	}
	return reply{body: items}, nil
}

// take takes messages until no more are left, or it has enough.
func (c *call) take(count int64) ([]broker.Got, error) {
	var all []broker.Got
	for size := 0; int64(len(all)) < count && size < maxGetBytes; {
		got, err := c.api.Broker.Get(c.Context(), c.vhost(), c.name(), false)
		if err != nil {
			c.giveBack(all)
			return nil, err
		}
		if got.Delivery == nil {
			break
		}
		all, size = append(all, got), size+len(got.Delivery.Message.Body)
	}
	return all, nil
}

// giveBack returns messages that nobody will see. What cannot be returned now is returned when the hold on it ends.
func (c *call) giveBack(all []broker.Got) {
	tokens := make([]string, len(all))
	for i := range all {
		tokens[i] = all[i].Token
	}
	if err := c.api.Broker.GiveBack(tokens); err != nil {
		c.api.Logger.Debug("messages could not be given back", "error", err)
	}
}

// encoded returns a body as text, or in base64 if that is wanted or it is no text, and the name of the encoding.
func encoded(body []byte, asBase64 bool) (text, encoding string) {
	if asBase64 || !utf8.Valid(body) {
		return base64.StdEncoding.EncodeToString(body), "base64"
	}
	return string(body), "string"
}

// show gives a message the names that RabbitMQ's HTTP API has.
func (w *wish) show(got *broker.Got) object {
	d := got.Delivery
	body := d.Message.Body
	if w.truncate >= 0 && int64(len(body)) > w.truncate {
		body = body[:w.truncate]
	}
	text, encoding := encoded(body, w.base64)
	return object{
		"payload_bytes": len(d.Message.Body), "redelivered": d.Redelivered, "exchange": d.Message.Exchange,
		"routing_key": d.Message.PrimaryKey(), "message_count": got.Ready, "payload": text, "payload_encoding": encoding,
		"properties": ofProperties(&d.Message.Properties, d.Headers(got.Classic)),
	}
}
