package page

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// messageForm is the form for a message, with what it begins with.
type messageForm struct {
	Fields  []formField
	Headers string // JSON
	Body    string
	Base64  bool // how the body is written
}

// queuePublishPage is the form for a message on a page about a queue.
type queuePublishPage struct {
	Queue queueRow
	Form  messageForm
	From  string // the number of the message that is published again; "": a new one
}

// publishPage is the form for a message on a page about an exchange.
type publishPage struct {
	Exchange exchangeRow
	Form     messageForm
}

// formField is a property in the form.
type formField struct {
	Name, Says, Value string
	Number            bool
	Choices           []named
}

// maxEditedBody bounds the body of a message that is published again from the form, in bytes.
const maxEditedBody = 256 << 10

// publishFields are the properties of the form, with the values of a message.
func publishFields(of messageProperties) []formField {
	says := map[string]string{
		"message_id": "Message id", "content_type": "Content type", "content_encoding": "Content encoding", "type": "Type",
		"correlation_id": "Correlation id", "reply_to": "Reply to", "delivery_mode": "Delivery mode", "priority": "Priority",
		"timestamp": "Timestamp, in seconds since 1970", "expiration": "Expiration, in milliseconds", "user_id": "User id", "app_id": "Application id",
	}
	var all []formField
	for _, name := range propertyNames() {
		f := formField{Name: name, Says: says[name], Value: of.Text(name), Number: isNumber(name)}
		if name == "delivery_mode" {
			f.Choices = []named{{"", "not set"}, {"1", "1, transient"}, {"2", "2, persistent"}}
		}
		all = append(all, f)
	}
	return all
}

// isNumber reports whether a property is a number.
func isNumber(property string) bool {
	return property == "delivery_mode" || property == "priority" || property == "timestamp"
}

// emptyMessage is the form for a new message, which is persistent unless the user decides otherwise.
func emptyMessage() messageForm {
	return messageForm{Fields: publishFields(messageProperties{exactObject{"delivery_mode": json.RawMessage("2")}})}
}

// form is the form for a message that is published again as it is.
func (m *messageRow) form() (messageForm, error) {
	f := messageForm{Fields: publishFields(m.Properties), Base64: !m.IsText(), Body: string(m.Body())}
	if f.Base64 {
		f.Body = m.Payload
	}
	var err error
	if h := m.Properties.Headers(); len(h) > 0 {
		f.Headers, err = jsonText(h)
	}
	return f, err
}

func loadQueuePublish(v *visit) (any, error) {
	p := queuePublishPage{From: v.FormValue("number"), Form: emptyMessage()}
	var err error
	if p.Queue, err = v.getQueue(); err != nil || p.From == "" {
		return p, err
	}
	m, err := v.oneMessage(v.choiceOfMessages().Part, p.From, maxEditedBody)
	if err != nil {
		return nil, err
	}
	if m.Bytes > maxEditedBody {
		return nil, badForm("number", "the message has "+byteSize(m.Bytes)+", more than the form takes ("+byteSize(maxEditedBody)+"); move it instead, or publish it with a client")
	}
	p.Form, err = m.form()
	return p, err
}

// loadPublish begins with the headers of the address, which explaining a route has entered.
func loadPublish(v *visit) (any, error) {
	x, err := v.getExchange()
	p := publishPage{x, emptyMessage()}
	p.Form.Headers = v.FormValue("headers")
	return p, err
}

// publication reads the form of a message. Browsers end the lines of a text with a carriage return and a newline; the
// body gets the newline alone.
func (v *visit) publication(key string) (map[string]any, error) {
	properties := map[string]any{}
	for _, property := range propertyNames() {
		text := v.PostFormValue(property)
		switch {
		case text == "":
		case !isNumber(property):
			properties[property] = text
		default:
			n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
			if err != nil {
				return nil, badForm(property, strconv.Quote(text)+" is no whole number")
			}
			properties[property] = n
		}
	}
	headers, err := v.jsonField("headers")
	if err != nil {
		return nil, err
	}
	if len(headers) > 0 {
		properties["headers"] = headers
	}
	body, encoding := v.PostFormValue("body"), "string"
	if v.PostFormValue("encoding") == "base64" {
		body, encoding = strings.Join(strings.Fields(body), ""), "base64"
	} else {
		body = strings.ReplaceAll(body, "\r\n", "\n")
	}
	return map[string]any{"routing_key": key, "properties": properties, "payload": body, "payload_encoding": encoding}, nil
}

// publish publishes what the form has through an exchange, and reports whether the message reached a queue.
func (v *visit) publish(exchange, key string) (routed bool, err error) {
	body, err := v.publication(key)
	if err != nil {
		return false, err
	}
	var out struct {
		Routed bool `json:"routed"`
	}
	err = v.change(http.MethodPost, body, &out, "/api/exchanges/%s/%s/publish", v.FormValue("vhost"), exchange)
	return out.Routed, err
}

// publishToQueue publishes to the queue through the default exchange.
func publishToQueue(v *visit) (outcome, error) {
	_, name := v.thisQueue()
	if _, err := v.getQueue(); err != nil { // a message for a queue that is gone would go nowhere
		return outcome{}, err
	}
	routed, err := v.publish(defaultExchange, name)
	if err == nil && !routed {
		err = &fault{Code: http.StatusNotFound, Kind: "Object Not Found", Reason: "the message went nowhere: queue " + strconv.Quote(name) + " is gone"}
	}
	return outcome{v.aboutQueue("/ui/queue/messages"), "The message is published, and the queue has stored it."}, err
}

// publishMessage publishes a message and reports whether it reached a queue.
func publishMessage(v *visit) (outcome, error) {
	name := v.FormValue("name")
	routed, err := v.publish(name, v.FormValue("routing_key"))
	said := "The message was routed: every queue that it reached has stored it."
	if !routed {
		said = "The message was not routed: no binding leads it to a queue, so it is gone. “Explain routing” shows why."
	}
	return outcome{address("/ui/exchange/publish", "vhost", v.FormValue("vhost"), "name", name), said}, err
}
