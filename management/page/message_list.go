package page

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// messageViews are the pages about the messages of one queue.
func messageViews() []view {
	return []view{
		{path: "/ui/queue/messages", file: "queue_messages.html", title: "Messages", load: loadMessages},
		{path: "/ui/queue/message", file: "queue_message.html", title: "Message", load: loadMessage},
		{path: "/ui/queue/messages/publish", file: "queue_publish.html", title: "Publish", load: loadQueuePublish},
	}
}

// messageActions publish messages, and change those in a queue.
func messageActions() []action {
	all := []action{{path: "/ui/queue/messages/publish", does: publishToQueue}}
	for _, j := range messageJobs() {
		all = append(all, action{path: "/ui/queue/messages/" + j.path, asks: j.asks, does: j.does})
	}
	return all
}

// messageChoice is what chooses messages, as entered.
type messageChoice struct {
	Part, MessageID, Number                string
	HeaderName, HeaderValue                string
	Dead                                   bool
	DeathQueue, DeathReason, DeathExchange string
}

// choiceOfMessages reads what chooses messages, from an address or a form.
func (v *visit) choiceOfMessages() messageChoice {
	c := messageChoice{
		Part: v.FormValue("part"), MessageID: v.FormValue("message_id"), Number: strings.TrimSpace(v.FormValue("number")),
		HeaderName: v.FormValue("header"), HeaderValue: v.FormValue("value"), Dead: v.FormValue("dead") == "true",
		DeathQueue: v.FormValue("death_queue"), DeathReason: v.FormValue("death_reason"), DeathExchange: v.FormValue("death_exchange"),
	}
	if c.Part == "" {
		c.Part = "ready"
	}
	return c
}

// Fields are the parameters that choose the same messages again; those that are not set are left out.
func (c *messageChoice) Fields() []named {
	all := []named{
		{"part", c.Part},
		{"message_id", c.MessageID},
		{"number", c.Number},
		{"header", c.HeaderName},
		{"value", c.HeaderValue},
		{"death_queue", c.DeathQueue},
		{"death_reason", c.DeathReason},
		{"death_exchange", c.DeathExchange},
	}
	if c.Dead {
		all = append(all, named{"dead", "true"})
	}
	set := all[:0]
	for _, f := range all {
		if f.Value != "" {
			set = append(set, f)
		}
	}
	return set
}

// All reports whether nothing is left out.
func (c *messageChoice) All() bool {
	return *c == messageChoice{Part: c.Part}
}

// Words describes the choice, for the page that asks before messages change.
func (c *messageChoice) Words() string {
	var all []string
	add := func(set bool, words string) {
		if set {
			all = append(all, words)
		}
	}
	add(c.MessageID != "", "with the message id "+strconv.Quote(c.MessageID))
	add(c.Number != "", "with the number "+c.Number)
	add(c.HeaderName != "", "with the header "+strconv.Quote(c.HeaderName)+" = "+c.HeaderValue)
	add(c.Dead, "that are dead letters")
	add(c.DeathQueue != "", "that died in queue "+strconv.Quote(c.DeathQueue))
	add(c.DeathReason != "", "that died of "+c.DeathReason)
	add(c.DeathExchange != "", "that died coming from exchange "+strconv.Quote(c.DeathExchange))
	return strings.Join(all, " and ")
}

// header is the value of the header that is asked for. What is no number, true, false or text in quotes is a text.
func (c *messageChoice) header() any {
	d := json.NewDecoder(strings.NewReader(c.HeaderValue))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil || d.More() {
		return c.HeaderValue
	}
	switch value.(type) {
	case json.Number, bool, string:
		return value
	}
	return c.HeaderValue
}

// query is the choice as parameters of a request to look at messages.
func (c *messageChoice) query() (url.Values, error) {
	q := url.Values{}
	for _, f := range c.Fields() {
		if f.Name != "header" && f.Name != "value" {
			q.Set(f.Name, f.Value)
		}
	}
	if c.HeaderName == "" {
		return q, nil
	}
	b, err := json.Marshal(map[string]any{c.HeaderName: c.header()})
	if err != nil {
		return nil, badForm("value", err.Error())
	}
	q.Set("headers", string(b))
	return q, nil
}

// filter is the choice as the API's jobs take it.
func (c *messageChoice) filter() (map[string]any, error) {
	out := map[string]any{"dead": c.Dead, "death_queue": c.DeathQueue, "death_reason": c.DeathReason, "death_exchange": c.DeathExchange}
	if c.MessageID != "" {
		out["message_ids"] = []string{c.MessageID}
	}
	if c.Number != "" {
		n, err := strconv.ParseUint(c.Number, 10, 64)
		if err != nil {
			return nil, badForm("number", strconv.Quote(c.Number)+" is no number of a message")
		}
		out["numbers"] = []uint64{n}
	}
	if c.HeaderName != "" {
		out["headers"] = map[string]any{c.HeaderName: c.header()}
	}
	return out, nil
}

// messagesShown is the number of messages on a page.
const messagesShown = 50

// peekPage is a page of messages as the API sends it.
type peekPage struct {
	Messages []*messageRow `json:"messages"`
	Next     string        `json:"next_page_token"`
	Looked   uint64        `json:"looked"`
}

// messagesPage is what the page of messages shows.
type messagesPage struct {
	Queue  queueRow
	Choice messageChoice
	Peek   peekPage
	Bodies bool
}

// Parts are the places where a queue has messages, with how many.
func (p *messagesPage) Parts() []partOf {
	q := &p.Queue
	return []partOf{{"ready", "Ready", q.Ready}, {"unsettled", "Unacked", q.Unacked}, {"delayed", "Delayed", q.Delayed}, {"backlog", "Dead letters that wait", q.DeadLetters}}
}

// partOf is a place where a queue has messages.
type partOf struct {
	Name, Says string
	Count      *uint64
}

// Reasons are why messages die.
func (p *messagesPage) Reasons() []string { return deathReasons() }

// deathReasons are the reasons of x-death.
func deathReasons() []string {
	return []string{"rejected", "expired", "maxlen", "delivery_limit", "queue_deleted"}
}

// Chooses reports whether messages can be chosen here: those that wait for a consumer.
func (p *messagesPage) Chooses() bool { return p.Choice.Part == "ready" }

func loadMessages(v *visit) (any, error) {
	p := messagesPage{Choice: v.choiceOfMessages(), Bodies: v.FormValue("bodies") != "none"}
	var err error
	if p.Queue, err = v.getQueue(); err != nil {
		return nil, err
	}
	q, err := p.Choice.query()
	if err != nil {
		return nil, err
	}
	q.Set("limit", strconv.Itoa(messagesShown))
	if token := v.FormValue("page_token"); token != "" {
		q.Set("page_token", token)
	}
	if p.Bodies {
		q.Set("bodies", "text")
	}
	return &p, v.peek(&p.Peek, q)
}

// peek reads messages of the queue of this visit.
func (v *visit) peek(out *peekPage, query url.Values) error {
	vhost, name := v.thisQueue()
	return v.list(out, query, "/v1/queues/%s/%s/messages", vhost, name)
}

// maxLooks is how many times the page looks for one message before it gives up.
const maxLooks = 10

// oneMessage finds the message with a number in a part of the queue. It leaves out a body that is larger than most.
func (v *visit) oneMessage(part, number string, most uint64) (*messageRow, error) {
	c := messageChoice{Part: part, Number: number}
	q, err := c.query()
	if err != nil {
		return nil, err
	}
	q.Set("from_number", number)
	q.Set("limit", "1")
	found, err := v.firstOf(q)
	if err != nil || found.Bytes > most {
		return found, err
	}
	q.Set("bodies", "text")
	return v.firstOf(q)
}

// firstOf returns the first message that a query chooses.
func (v *visit) firstOf(q url.Values) (*messageRow, error) {
	for range maxLooks {
		var p peekPage
		if err := v.peek(&p, q); err != nil {
			return nil, err
		}
		if len(p.Messages) > 0 {
			return p.Messages[0], nil
		}
		if p.Next == "" {
			break
		}
		q.Set("page_token", p.Next)
	}
	return nil, &fault{
		Code: http.StatusNotFound, Kind: "Object Not Found",
		Reason: "there is no message " + q.Get("number") + " in part " + q.Get("part") + " of the queue, or not any more; the list of messages shows what is there",
	}
}

// messagePage is what the page of one message shows.
type messagePage struct {
	Queue   queueRow
	Part    string
	Message *messageRow
	Body    shownBody
}

// Fetched reports whether the body is small enough for the page.
func (p *messagePage) Fetched() bool { return p.Message.Bytes <= maxFetchedBody }

// Forms are the ways to show the body.
func (p *messagePage) Forms() []string { return bodyForms() }

func loadMessage(v *visit) (any, error) {
	p := messagePage{Part: v.choiceOfMessages().Part}
	var err error
	if p.Queue, err = v.getQueue(); err != nil {
		return nil, err
	}
	if p.Message, err = v.oneMessage(p.Part, v.FormValue("number"), maxFetchedBody); err != nil {
		return nil, err
	}
	if p.Fetched() {
		p.Body = p.Message.showBody(v.FormValue("as"))
	}
	return &p, nil
}
