package page

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// queuePartViews are the pages about parts of one queue.
func queuePartViews() []view {
	return slices.Concat(messageViews(), []view{
		{path: "/ui/queue/dead-letters", file: "queue_dead_letters.html", title: "Dead letters", load: loadDeadLetters},
		{path: "/ui/queue/members", file: "queue_members.html", title: "Members", load: loadMembers},
		{path: "/ui/queue/consumers", file: "queue_consumers.html", title: "Consumers of a queue", load: loadQueueConsumers},
		{path: "/ui/queue/bindings", file: "queue_bindings.html", title: "Bindings of a queue", load: loadQueueBindings},
	})
}

// queuePartActions change parts of one queue.
func queuePartActions() []action {
	return slices.Concat(messageActions(), []action{
		{path: "/ui/queue/members/add", does: addMember},
		{path: "/ui/queue/members/remove", asks: asksRemoveMember, does: removeMember},
		{path: "/ui/queue/bindings/bind", does: bindQueue},
		{path: "/ui/queue/bindings/unbind", asks: asksUnbindQueue, does: unbindQueue},
	})
}

// sortedKeys lists the keys of a table in their order.
func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }

// queueConsumersPage is what the page about a queue's consumers shows.
type queueConsumersPage struct {
	Queue   queueRow
	Page    listPage[*consumerRow]
	Refused string // why there is no list
}

func loadQueueConsumers(v *visit) (any, error) {
	var p queueConsumersPage
	var err error
	if p.Queue, err = v.getQueue(); err != nil {
		return nil, err
	}
	vhost, name := v.thisQueue()
	q := v.innerQuery()
	q.Set("queue", name)
	err = v.list(&p.Page, q, "/api/consumers/%s", vhost)
	if refused(err) {
		p.Refused, err = err.Error(), nil
	}
	return &p, err
}

// queueBindingsPage is what the page about a queue's bindings shows.
type queueBindingsPage struct {
	Queue     queueRow
	Page      listPage[*bindingRow]
	Exchanges []string // that it may be bound to
}

// exchangesOffered is how many exchanges a form offers; others can be typed.
const exchangesOffered = "500"

func loadQueueBindings(v *visit) (any, error) {
	var p queueBindingsPage
	var err error
	if p.Queue, err = v.getQueue(); err != nil {
		return nil, err
	}
	vhost, name := v.thisQueue()
	if err := v.list(&p.Page, v.innerQuery(), "/api/queues/%s/%s/bindings", vhost, name); err != nil {
		return nil, err
	}
	var exchanges listPage[struct {
		Name string `json:"name"`
	}]
	err = v.list(&exchanges, url.Values{"columns": {"name"}, "page": {"1"}, "page_size": {exchangesOffered}}, "/api/exchanges/%s", vhost)
	for _, x := range exchanges.Items {
		if x.Name != "" { // the default exchange has no bindings of its own
			p.Exchanges = append(p.Exchanges, x.Name)
		}
	}
	return &p, err
}

// bindQueue binds the queue to an exchange.
func bindQueue(v *visit) (outcome, error) {
	arguments, err := v.jsonField("arguments")
	if err != nil {
		return outcome{}, err
	}
	source := v.PostFormValue("source")
	if source == "" {
		return outcome{}, badForm("source", "name an exchange; each queue is bound to the default exchange already")
	}
	vhost, name := v.thisQueue()
	body := map[string]any{"routing_key": v.PostFormValue("key"), "arguments": arguments}
	err = v.change(http.MethodPost, body, nil, bindingPath("queue"), vhost, source, name)
	return outcome{v.aboutQueue("/ui/queue/bindings"), "The queue is bound to exchange " + source + "."}, err
}

func asksUnbindQueue(v *visit) (question, error) {
	vhost, name := v.thisQueue()
	var b bindingRow
	if err := v.get(&b, bindingPath("queue")+"/%s", vhost, v.FormValue("source"), name, v.FormValue("props")); err != nil {
		return question{}, err
	}
	q := question{
		Title: "Unbind queue " + name + " from exchange " + b.Source + "?", Button: "Unbind", Back: v.aboutQueue("/ui/queue/bindings"),
		Lines: []string{
			"Messages to exchange " + strconv.Quote(b.Source) + " that match the routing key " + strconv.Quote(b.Key) + " no longer reach the queue by this binding.",
			"Messages that are in the queue stay there.",
		},
	}
	if len(b.Arguments) > 0 {
		text, err := json.Marshal(b.Arguments)
		if err != nil {
			return question{}, err
		}
		q.Lines = append(q.Lines, "The binding has the arguments "+string(text)+".")
	}
	return q, nil
}

func unbindQueue(v *visit) (outcome, error) {
	vhost, name := v.thisQueue()
	source := v.FormValue("source")
	err := v.change(http.MethodDelete, nil, nil, bindingPath("queue")+"/%s", vhost, source, name, v.FormValue("props"))
	return outcome{v.aboutQueue("/ui/queue/bindings"), "The queue is not bound to exchange " + source + " by this binding any more."}, err
}
