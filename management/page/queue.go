package page

import (
	"net/http"
	"net/url"
	"strconv"
)

// queueViews are the pages about queues.
func queueViews() []view {
	return []view{
		{path: "/ui/queues", file: "queues.html", title: "Queues", load: loadQueues},
		{path: "/ui/queue", file: "queue.html", title: "Queue", load: loadQueue},
	}
}

// queueActions change queues.
func queueActions() []action {
	return []action{
		{path: "/ui/queues/declare", does: declareQueue},
		{path: "/ui/queue/purge", asks: asksPurge, does: purgeQueue},
		{path: "/ui/queue/delete", asks: asksDeleteQueue, does: deleteQueue},
		{path: "/ui/queues/purge", asks: asksBulk("Purge"), does: doBulk("Purged", http.MethodDelete, "/api/queues/%s/%s/contents")},
		{path: "/ui/queues/delete", asks: asksBulk("Delete"), does: doBulk("Deleted", http.MethodDelete, "/api/queues/%s/%s")},
	}
}

// queueRow is a queue in a list, and the head of the pages about one.
type queueRow struct {
	Name           string         `json:"name"`
	VHost          string         `json:"vhost"`
	State          string         `json:"state"`
	Leader         string         `json:"leader"`
	Members        []string       `json:"members"`
	Online         []string       `json:"online"`
	Arguments      map[string]any `json:"arguments"`
	Policy         string         `json:"policy"`
	OperatorPolicy string         `json:"operator_policy"`
	Effective      map[string]any `json:"effective_policy_definition"`
	// Figures are nil while the queue has no leader.
	Ready         *uint64           `json:"messages_ready"`
	Unacked       *uint64           `json:"messages_unacknowledged"`
	Delayed       *uint64           `json:"messages_delayed"`
	DeadLetters   *uint64           `json:"messages_dlx"`
	Messages      *uint64           `json:"messages"`
	Bytes         *uint64           `json:"message_bytes"`
	Consumers     *int              `json:"consumers"`
	OldestMs      *float64          `json:"oldest_message_age_ms"`
	DeliveryLimit int64             `json:"delivery_limit"`
	DeadLettered  map[string]uint64 `json:"dead_lettered"`
	Trouble       string            `json:"dead_letter_trouble"`
	BacklogBytes  *uint64           `json:"message_bytes_dlx"`
	BacklogOldest *float64          `json:"oldest_dead_letter_age_ms"`
	Dead          deadLetterFigures `json:"dead_letters"`
	Stats         messageStats      `json:"message_stats"`
	Metadata      struct {
		DeclaredBy string `json:"declared_by"`
		UID        uint64 `json:"uid"`
	} `json:"metadata"`
}

// ID distinguishes the rows of a list in the browser.
func (q *queueRow) ID() string { return strconv.FormatUint(q.Metadata.UID, 10) }

// Key names the queue in a form that has many.
func (q *queueRow) Key() string { return url.PathEscape(q.VHost) + "/" + url.PathEscape(q.Name) }

// queuePage is what the pages about one queue show; those with more have a type of their own.
type queuePage struct{ Queue queueRow }

// thisQueue is the vhost and the name in the address, or in the form.
func (v *visit) thisQueue() (vhost, name string) { return v.FormValue("vhost"), v.FormValue("name") }

// aboutQueue is the address of a page about the queue of this visit.
func (v *visit) aboutQueue(path string) string {
	vhost, name := v.thisQueue()
	return address(path, "vhost", vhost, "name", name)
}

// getQueue asks for the queue of this visit.
func (v *visit) getQueue() (q queueRow, err error) {
	vhost, name := v.thisQueue()
	return q, v.get(&q, "/api/queues/%s/%s", vhost, name)
}

// queueOverview is what the first page about a queue shows.
type queueOverview struct {
	queuePage
	// Settings are those in force; nil if the user may not ask for them.
	Settings []setting
}

func loadQueue(v *visit) (any, error) {
	q, err := v.getQueue()
	if err != nil {
		return nil, err
	}
	out := queueOverview{queuePage: queuePage{q}}
	out.Settings, err = v.settingsInForce(&q)
	if refused(err) {
		err = nil
	}
	return out, err
}

// settingsInForce asks for the settings of a queue and where each comes from. The default exchange routes to every
// queue by its name, and an explanation of its routing has the settings in force of the queues to which it routes.
func (v *visit) settingsInForce(q *queueRow) ([]setting, error) {
	var out struct {
		Queues []routedQueue `json:"queues"`
	}
	err := v.change(http.MethodPost, map[string]any{"routing_keys": []string{q.Name}}, &out, "/v1/exchanges/%s/amq.default/explain", q.VHost)
	for i := range out.Queues {
		if out.Queues[i].Name == q.Name {
			return out.Queues[i].Settings, err
		}
	}
	return nil, err
}

// declareQueue declares a queue, then shows it.
func declareQueue(v *visit) (outcome, error) {
	vhost, name := v.thisQueue()
	arguments, err := v.jsonField("arguments")
	if err != nil {
		return outcome{}, err
	}
	body := map[string]any{"durable": true, "arguments": arguments}
	err = v.change(http.MethodPut, body, nil, "/api/queues/%s/%s", vhost, name)
	return outcome{v.aboutQueue("/ui/queue"), "The queue is declared."}, err
}

func asksPurge(v *visit) (question, error) {
	q, err := v.getQueue()
	return question{
		Title: "Purge queue " + q.Name + "?", Name: q.Name, Button: "Purge", Back: v.aboutQueue("/ui/queue"),
		Lines: []string{
			count(q.Ready) + " ready messages are deleted for good.",
			count(q.Unacked) + " unacknowledged messages stay with their consumers.",
		},
	}, err
}

func purgeQueue(v *visit) (outcome, error) {
	vhost, name := v.thisQueue()
	err := v.change(http.MethodDelete, nil, nil, "/api/queues/%s/%s/contents", vhost, name)
	return outcome{v.aboutQueue("/ui/queue"), "The queue is purged."}, err
}

func asksDeleteQueue(v *visit) (question, error) {
	q, err := v.getQueue()
	return question{
		Title: "Delete queue " + q.Name + "?", Name: q.Name, Button: "Delete", Back: v.aboutQueue("/ui/queue"),
		Lines: []string{
			count(q.Messages) + " messages are deleted for good, " + count(q.DeadLetters) + " of them dead letters that wait for their target.",
			consumersLine(q.Consumers), "Its bindings go with it.",
		},
	}, err
}

// consumersLine describes how a deletion affects the consumers.
func consumersLine(n *int) string {
	if n == nil || *n == 0 {
		return "It has no consumers."
	}
	if *n == 1 {
		return "1 consumer is cancelled."
	}
	return count(*n) + " consumers are cancelled."
}

func deleteQueue(v *visit) (outcome, error) {
	vhost, name := v.thisQueue()
	err := v.change(http.MethodDelete, nil, nil, "/api/queues/%s/%s", vhost, name)
	return outcome{address("/ui/queues", "vhost", vhost), "Queue " + name + " is deleted."}, err
}
