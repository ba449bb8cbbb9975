package page

import (
	"maps"
	"net/url"
	"slices"
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
		{path: "/ui/queue/members/lead", does: transferLeader},
		{path: "/ui/queue/members/add", does: addMember},
		{path: "/ui/queue/members/remove", asks: asksRemoveMember, does: removeMember},
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
	err = v.list(&exchanges, url.Values{"columns": {"name"}, "disable_stats": {"true"}, "page": {"1"}, "page_size": {exchangesOffered}}, "/api/exchanges/%s", vhost)
	for _, x := range exchanges.Items {
		if x.Name != "" { // the default exchange has no bindings of its own
			p.Exchanges = append(p.Exchanges, x.Name)
		}
	}
	return &p, err
}
