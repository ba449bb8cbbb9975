package page

import (
	"net/http"
)

// publishPage is the form for a message.
type publishPage struct {
	Exchange exchangeRow
	Texts    []propertyField
}

// propertyField is a property of a message in the form.
type propertyField struct{ Name, Says, Hint string }

// propertyFields are the properties that have fields of their own; the API takes numbers as text, too.
func propertyFields() []propertyField {
	return []propertyField{
		{"content_type", "Content type", "text/plain"},
		{"content_encoding", "Content encoding", "gzip"},
		{"message_id", "Message id", ""},
		{"correlation_id", "Correlation id", ""},
		{"reply_to", "Reply to", "a queue"},
		{"expiration", "Expiration", "milliseconds, such as 60000"},
		{"priority", "Priority", "0 to 31"},
		{"timestamp", "Timestamp", "seconds since 1970"},
		{"type", "Type", ""},
		{"user_id", "User id", "your own name"},
		{"app_id", "Application id", ""},
	}
}

func loadPublish(v *visit) (any, error) {
	x, err := v.getExchange()
	return publishPage{x, propertyFields()}, err
}

// publishMessage says whether the message reached a queue.
func publishMessage(v *visit) (outcome, error) {
	headers, err := v.jsonField("headers")
	if err != nil {
		return outcome{}, err
	}
	properties := map[string]any{"headers": headers}
	if v.flag("persistent") {
		properties["delivery_mode"] = 2
	}
	for _, f := range propertyFields() {
		if text := v.FormValue(f.Name); text != "" {
			properties[f.Name] = text
		}
	}
	encoding := "string"
	if v.flag("base64") {
		encoding = "base64"
	}
	body := map[string]any{
		"routing_key": v.FormValue("routing_key"), "properties": properties, "payload": v.FormValue("payload"), "payload_encoding": encoding,
	}
	var answer struct {
		Routed bool `json:"routed"`
	}
	err = v.change(http.MethodPost, body, &answer, "/api/exchanges/%s/%s/publish", v.FormValue("vhost"), v.FormValue("name"))
	said := "The message was routed: every queue that it reached has stored it."
	if !answer.Routed {
		said = "The message was not routed: no binding leads it to a queue, so it is gone. “Explain routing” shows why."
	}
	return outcome{address("/ui/exchange/publish", "vhost", v.FormValue("vhost"), "name", v.FormValue("name")), said}, err
}

// explainPage is the question where a message would go, and the answer.
type explainPage struct {
	Exchange exchangeRow
	Asked    bool
	Fault    string        // what is wrong with the question
	Queues   []routedQueue `json:"queues"`
	Steps    []routingStep `json:"steps"`
}

// routedQueue is a queue that a message would reach.
type routedQueue struct {
	Name           string    `json:"name"`
	Path           []string  `json:"path"`
	Policy         string    `json:"policy"`
	OperatorPolicy string    `json:"operator_policy"`
	Settings       []setting `json:"settings"`
}

// setting is a setting in force, with where it comes from.
type setting struct {
	Argument string `json:"argument"`
	Value    string `json:"value"`
	Source   string `json:"source"`
}

// routingStep is an exchange that a message passes.
type routingStep struct {
	Exchange string   `json:"exchange"`
	Type     string   `json:"type"`
	Via      string   `json:"via"`
	Missing  bool     `json:"missing"`
	Taken    []string `json:"taken"`
	Misses   []struct {
		Binding string `json:"binding"`
		Why     string `json:"why"`
	} `json:"misses"`
	MissesTotal int `json:"misses_total"`
}

// Key is the exchange's name in addresses.
func (s *routingStep) Key() string { return exchangeKey(s.Exchange) }

// Says is the exchange's name for people.
func (s *routingStep) Says() string { return exchangeRow{Name: s.Exchange}.Says() }

// More is the number of bindings that do not match and are not shown.
func (s *routingStep) More() int { return s.MissesTotal - len(s.Misses) }

// loadExplain answers a question that can be asked; one that is still being typed is part of the page.
func loadExplain(v *visit) (any, error) {
	x, err := v.getExchange()
	p := explainPage{Exchange: x, Asked: v.URL.Query().Has("routing_key")}
	if err != nil || !p.Asked {
		return p, err
	}
	headers, err := v.jsonField("headers")
	if err == nil {
		body := map[string]any{"routing_keys": []string{v.FormValue("routing_key")}, "headers": headers}
		err = v.change(http.MethodPost, body, &p, "/v1/exchanges/%s/%s/explain", x.VHost, x.Key())
	}
	if wrong(err) {
		p.Fault, err = err.Error(), nil
	}
	return p, err
}
