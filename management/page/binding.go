package page

import (
	"net/http"
)

// bindingActions make and remove bindings, from the pages about either end.
func bindingActions() []action {
	return []action{
		{path: "/ui/binding/add", does: bind},
		{path: "/ui/binding/remove", asks: asksUnbind, does: unbind},
	}
}

// bindingRow is a binding in a list.
type bindingRow struct {
	Source      string         `json:"source"`
	VHost       string         `json:"vhost"`
	Destination string         `json:"destination"`
	Kind        string         `json:"destination_type"` // queue or exchange
	Key         string         `json:"routing_key"`
	Arguments   map[string]any `json:"arguments"`
	Props       string         `json:"properties_key"`
}

// SourceKey is the source's name in addresses.
func (b *bindingRow) SourceKey() string { return exchangeKey(b.Source) }

// Fixed reports whether the binding is one of the default exchange, which nobody can remove.
func (b *bindingRow) Fixed() bool { return b.Source == "" }

// Destined is the address of the page about the destination.
func (b *bindingRow) Destined() string {
	return address("/ui/"+b.Kind, "vhost", b.VHost, "name", b.Destination)
}

// bindingPath is the API's path of bindings between a source and a destination of a kind.
func bindingPath(kind string) string {
	if kind == "exchange" {
		return "/api/bindings/%s/e/%s/e/%s"
	}
	return "/api/bindings/%s/e/%s/q/%s"
}

// onQueue reports whether a form or a link about a binding is on the page about a queue, not about an exchange.
func (v *visit) onQueue() bool { return v.FormValue("of") == "queue" }

// backTo is the page that a form or a link about a binding is on.
func (v *visit) backTo() string {
	if v.onQueue() {
		return v.aboutQueue("/ui/queue/bindings")
	}
	return address("/ui/exchange", "vhost", v.FormValue("vhost"), "name", v.FormValue("name"))
}

// bind binds a queue or an exchange to an exchange.
func bind(v *visit) (outcome, error) {
	arguments, err := v.jsonField("arguments")
	if err != nil {
		return outcome{}, err
	}
	for _, field := range []string{"source", "destination"} {
		if v.FormValue(field) == "" {
			return outcome{}, badForm(field, "want a name")
		}
	}
	body := map[string]any{"routing_key": v.FormValue("routing_key"), "arguments": arguments}
	err = v.change(http.MethodPost, body, nil, bindingPath(v.FormValue("kind")), v.FormValue("vhost"), v.FormValue("source"), v.FormValue("destination"))
	return outcome{v.backTo(), "The binding is made."}, err
}

// thisBinding asks for the binding that a question is about.
func (v *visit) thisBinding() (b bindingRow, err error) {
	path := bindingPath(v.FormValue("kind")) + "/%s"
	return b, v.get(&b, path, v.FormValue("vhost"), v.FormValue("source"), v.FormValue("destination"), v.FormValue("props"))
}

// asksUnbind asks for the name of what is bound, since a binding has none.
func asksUnbind(v *visit) (question, error) {
	b, err := v.thisBinding()
	if err != nil {
		return question{}, err
	}
	q := question{Title: "Remove the binding of " + b.Kind + " " + b.Destination + "?", Name: b.Destination, Button: "Remove", Back: v.backTo()}
	q.Lines = append(q.Lines, "It is bound to exchange "+b.Source+" with the key “"+b.Key+"”.")
	if len(b.Arguments) > 0 {
		text, err := jsonText(b.Arguments)
		if err != nil {
			return q, err
		}
		q.Lines = append(q.Lines, "Its arguments are "+text+".")
	}
	q.Lines = append(q.Lines, "Messages that only this binding leads to the "+b.Kind+" do not get there any more. What is in queues stays.")
	x := exchangeRow{}
	if err := v.get(&x, "/api/exchanges/%s/%s", b.VHost, b.SourceKey()); err != nil || !x.AutoDelete {
		return q, err
	}
	n, err := v.howMany("/api/exchanges/%s/%s/bindings/source", b.VHost, b.SourceKey())
	if n == 1 {
		q.Lines = append(q.Lines, "It is the last binding from "+b.Source+", which is auto-delete: the exchange goes with it.")
	}
	return q, err
}

// unbind redirects to the list if an auto-delete exchange was deleted with its last binding.
func unbind(v *visit) (outcome, error) {
	path := bindingPath(v.FormValue("kind")) + "/%s"
	err := v.change(http.MethodDelete, nil, nil, path, v.FormValue("vhost"), v.FormValue("source"), v.FormValue("destination"), v.FormValue("props"))
	if err != nil {
		return outcome{}, err
	}
	next := v.backTo()
	var x exchangeRow
	if err := v.get(&x, "/api/exchanges/%s/%s", v.FormValue("vhost"), v.FormValue("source")); missing(err) && !v.onQueue() {
		next = address("/ui/exchanges", "vhost", v.FormValue("vhost"))
	}
	return outcome{next, "The binding is removed."}, nil
}
