package page

import "net/http"

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
