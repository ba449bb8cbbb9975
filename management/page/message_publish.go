package page

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// queuePublishPage is what the form for a message shows.
type queuePublishPage struct {
	Queue  queueRow
	Fields []formField
	// Headers and Body are what the form begins with; Base64 says how the body is written.
	Headers, Body string
	Base64        bool
	From          string // the number of the message that is published again; "": a new one
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

func loadQueuePublish(v *visit) (any, error) {
	p := queuePublishPage{From: v.FormValue("number")}
	var err error
	if p.Queue, err = v.getQueue(); err != nil {
		return nil, err
	}
	if p.From == "" {
		p.Fields = publishFields(messageProperties{exactObject{"delivery_mode": json.RawMessage("2")}})
		return p, nil
	}
	m, err := v.oneMessage(v.choiceOfMessages().Part, p.From, maxEditedBody)
	if err != nil {
		return nil, err
	}
	if m.Bytes > maxEditedBody {
		return nil, badForm("number", "the message has "+byteSize(m.Bytes)+", more than the form takes ("+byteSize(maxEditedBody)+"); move it instead, or publish it with a client")
	}
	p.Fields = publishFields(m.Properties)
	if h := m.Properties.Headers(); len(h) > 0 {
		if p.Headers, err = jsonText(h); err != nil {
			return nil, err
		}
	}
	if p.Base64 = !m.IsText(); p.Base64 {
		p.Body = m.Payload
	} else {
		p.Body = string(m.Body())
	}
	return p, nil
}

// publication reads the form of a message. Browsers end the lines of a text with a carriage return and a newline; the
// body gets the newline alone.
func (v *visit) publication() (map[string]any, error) {
	_, name := v.thisQueue()
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
	return map[string]any{"routing_key": name, "properties": properties, "payload": body, "payload_encoding": encoding}, nil
}

// publishToQueue publishes to the queue through the default exchange.
func publishToQueue(v *visit) (outcome, error) {
	body, err := v.publication()
	if err != nil {
		return outcome{}, err
	}
	vhost, name := v.thisQueue()
	if _, err := v.getQueue(); err != nil { // a message for a queue that is gone would go nowhere
		return outcome{}, err
	}
	var out struct {
		Routed bool `json:"routed"`
	}
	if err := v.change(http.MethodPost, body, &out, "/api/exchanges/%s/amq.default/publish", vhost); err != nil {
		return outcome{}, err
	}
	if !out.Routed {
		return outcome{}, &fault{Code: http.StatusNotFound, Kind: "Object Not Found", Reason: "the message went nowhere: queue " + strconv.Quote(name) + " is gone"}
	}
	return outcome{v.aboutQueue("/ui/queue/messages"), "The message is published, and the queue has stored it."}, nil
}
