package page

import (
	"net/http"
	"net/url"
	"strconv"
)

// deadLetterRoute is where a dead letter would go, and why.
type deadLetterRoute struct {
	Strategy string        `json:"strategy"`
	Exchange string        `json:"exchange"`
	Keys     []string      `json:"routing_keys"`
	Targets  []routedQueue `json:"targets"`
	Cyclic   []string      `json:"cyclic"`
	Cause    string        `json:"cause"`
	Why      string        `json:"why"`
	Settings []setting     `json:"settings"`
	Steps    []routingStep `json:"steps"`
	Warnings []string      `json:"warnings"`
}

// deadLettersPage is what the page about a queue's dead letters shows.
type deadLettersPage struct {
	Queue queueRow
	// Asked is what the route was asked for: a reason, and a routing key or a message.
	Reason, Key, Number string
	Part                string
	Route               *deadLetterRoute // nil if only the figures are asked for
	Refused             string           // why there is no route
	Holds               bool             // dead letters are among the ready messages
}

// Reasons are why messages die.
func (p *deadLettersPage) Reasons() []string { return deathReasons() }

// Oldest is how long the oldest dead letter waits.
func (p *deadLettersPage) Oldest() string {
	if n := p.Queue.DeadLetters; n == nil || *n == 0 {
		return unknown
	}
	return millis(p.Queue.BacklogOldest)
}

// loadDeadLetters asks for the route and for dead letters among the ready messages only if the whole page is wanted, as
// the figures are what changes.
func loadDeadLetters(v *visit) (any, error) {
	p := deadLettersPage{Reason: v.FormValue("reason"), Key: v.FormValue("key"), Number: v.FormValue("number"), Part: v.choiceOfMessages().Part}
	var err error
	if p.Queue, err = v.getQueue(); err != nil || v.byScript() {
		return &p, err
	}
	var found peekPage
	p.Route, err = v.explainDeadLetter(&p)
	if err == nil {
		err = v.peek(&found, url.Values{"dead": {"true"}, "limit": {"1"}})
	}
	p.Holds = len(found.Messages) > 0
	if refused(err) {
		p.Refused, err = err.Error(), nil
	}
	return &p, err
}

// explainDeadLetter asks where a message of the queue would go if it died now.
func (v *visit) explainDeadLetter(p *deadLettersPage) (*deadLetterRoute, error) {
	body := map[string]any{"reason": p.Reason}
	if p.Key != "" {
		body["routing_keys"] = []string{p.Key}
	}
	if p.Number != "" {
		n, err := strconv.ParseUint(p.Number, 10, 63)
		if err != nil {
			return nil, badForm("number", strconv.Quote(p.Number)+" is no number of a message")
		}
		body["number"], body["part"] = n, p.Part
	}
	vhost, name := v.thisQueue()
	out := &deadLetterRoute{}
	return out, v.change(http.MethodPost, body, out, "/v1/queues/%s/%s/dead-letters/explain", vhost, name)
}

// deadLetterFigures are the counts of a queue's dead letters.
type deadLetterFigures struct {
	Discarded []struct {
		Reason   string `json:"reason"`
		Strategy string `json:"strategy"`
		Count    uint64 `json:"count"`
	} `json:"discarded"`
	Confirmed uint64            `json:"confirmed"`
	Abandoned uint64            `json:"abandoned"`
	Waiting   map[string]uint64 `json:"waiting"`
	Retries   map[string]uint64 `json:"retries"`
	Lost      map[string]uint64 `json:"lost"`
}

// causeRow counts the dead letters that one cause has kept from their target.
type causeRow struct {
	Cause                  string
	Waiting, Retries, Lost uint64
}

// Causes are why dead letters have not reached their target, since the queue's leader was elected.
func (d *deadLetterFigures) Causes() (all []causeRow) {
	rows := map[string]bool{}
	for _, counts := range []map[string]uint64{d.Waiting, d.Retries, d.Lost} {
		for cause := range counts {
			rows[cause] = true
		}
	}
	for _, cause := range sortedKeys(rows) {
		all = append(all, causeRow{cause, d.Waiting[cause], d.Retries[cause], d.Lost[cause]})
	}
	return all
}
