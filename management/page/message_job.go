package page

import (
	"net/http"
	"strconv"
)

// messageJob is a way to change chosen messages of a queue.
type messageJob struct {
	path   string // of the page and of the API
	button string
	// fields adds what only this job has to the body of the request.
	fields func(v *visit, body map[string]any) error
	effect func(v *visit) string // a sentence on what happens to the messages
}

// messageJobs are the ways that there are.
func messageJobs() []messageJob {
	return []messageJob{
		{
			path: "delete", button: "Delete", fields: func(*visit, map[string]any) error { return nil },
			effect: func(*visit) string { return "They are deleted for good, and are not dead-lettered." },
		},
		{path: "move", button: "Move", fields: moveFields, effect: moveEffect},
		{path: "redrive", button: "Redrive", fields: redriveFields, effect: redriveEffect},
	}
}

// moveFields names the target of a move.
func moveFields(v *visit, body map[string]any) error {
	target := v.FormValue("target")
	if v.FormValue("to") != "exchange" {
		if target == "" {
			return badForm("target", "name the queue that the messages go to")
		}
		body["to_queue"] = target
		return nil
	}
	body["to_exchange"] = target
	if key := v.FormValue("key"); key != "" {
		body["routing_key"] = key
	}
	return nil
}

// moveEffect describes where a move leads.
func moveEffect(v *visit) string {
	target := strconv.Quote(v.FormValue("target"))
	if v.FormValue("to") != "exchange" {
		return "They go to queue " + target + ", each once."
	}
	if key := v.FormValue("key"); key != "" {
		return "They go through exchange " + target + " with the routing key " + strconv.Quote(key) + ", each once."
	}
	return "They go through exchange " + target + " with the routing keys that they have, each once."
}

// redriveFields sets whether dead letters go back through the exchange.
func redriveFields(v *visit, body map[string]any) error {
	body["to_exchange"] = v.FormValue("back") == "exchange"
	return nil
}

// redriveEffect describes where a redrive leads.
func redriveEffect(v *visit) string {
	if v.FormValue("back") == "exchange" {
		return "Dead letters go back to the exchange through which they had reached the queue where they first died. Other messages stay."
	}
	return "Dead letters go back to the queue where they first died. Other messages stay."
}

// choosesMessages reads which messages the form chooses, and describes them.
func (v *visit) choosesMessages() (filter map[string]any, words string, err error) {
	c := v.choiceOfMessages()
	if v.FormValue("scope") == "all" {
		filter, err = c.filter()
		if c.All() {
			return filter, "Chosen: all ready messages of the queue.", err
		}
		return filter, "Chosen: ready messages " + c.Words() + ".", err
	}
	var numbers []uint64
	for _, text := range v.Form["chosen"] {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, "", badForm("chosen", strconv.Quote(text)+" is no number of a message")
		}
		numbers = append(numbers, n)
	}
	if len(numbers) == 0 {
		return nil, "", badForm("chosen", "choose messages in the list first, or all that match the filter")
	}
	return map[string]any{"numbers": numbers}, "Chosen: " + plural(len(numbers), "message") + " of the list.", nil
}

// body is the request for a job; words describes the messages.
func (j *messageJob) body(v *visit) (body map[string]any, words string, err error) {
	filter, words, err := v.choosesMessages()
	if err != nil {
		return nil, "", err
	}
	body = map[string]any{"filter": filter}
	for _, name := range []string{"limit", "rate"} {
		text := v.FormValue(name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return nil, "", badForm(name, strconv.Quote(text)+" is no whole number")
		}
		body[name] = n
	}
	return body, words, j.fields(v, body)
}

// send sends the request for a job.
func (j *messageJob) send(v *visit, body map[string]any, out any) error {
	vhost, name := v.thisQueue()
	return v.change(http.MethodPost, body, out, "/v1/queues/%s/%s/messages/"+j.path, vhost, name)
}

// planLines is how many lines of a plan a question shows.
const planLines = 20

// shortened returns the first lines of a plan, and how many there are beyond them.
func (b *begun) shortened() []string {
	if b.Total <= planLines {
		return b.Plan
	}
	first := b.Plan[:min(len(b.Plan), planLines)]
	return append(first[:len(first):len(first)], "and "+count(b.Total-len(first))+" more")
}

// asks makes a dry run, and shows what it would do.
func (j *messageJob) asks(v *visit) (question, error) {
	if err := v.ParseForm(); err != nil {
		return question{}, badForm("chosen", err.Error())
	}
	_, name := v.thisQueue()
	body, words, err := j.body(v)
	if err != nil {
		return question{}, err
	}
	body["dry_run"] = true
	var p begun
	if err := j.send(v, body, &p); err != nil {
		return question{}, err
	}
	if p.Total == 0 {
		return question{}, badForm("chosen", "no ready message of queue "+strconv.Quote(name)+" is chosen, or none that this can be done to; nothing was done")
	}
	return question{
		Title: j.button + " " + plural(p.Total, "message") + " of queue " + name + "?", Name: name, Button: j.button, Back: v.aboutQueue("/ui/queue/messages"),
		Lines: []string{words, j.effect(v), "A dry run has found " + plural(p.Total, "message") + " now."}, Plan: p.shortened(),
	}, nil
}

// does begins the job.
func (j *messageJob) does(v *visit) (outcome, error) {
	body, _, err := j.body(v)
	if err != nil {
		return outcome{}, err
	}
	var out begun
	err = j.send(v, body, &out)
	return v.leadsTo(&out, v.aboutQueue("/ui/queue/messages")), err
}

// leadsTo is the outcome of what begins an operation: its page, or another one for users who may not see operations.
func (v *visit) leadsTo(b *begun, otherwise string) outcome {
	if b.Operation == nil || !v.Can("monitoring") {
		return outcome{otherwise, "The operation has begun."}
	}
	return b.outcome("The operation has begun.")
}
