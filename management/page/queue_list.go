package page

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// listPage is one page of a list of the API.
type listPage[T any] struct {
	Items    []T `json:"items"`
	Page     int `json:"page"`
	Pages    int `json:"page_count"`
	Filtered int `json:"filtered_count"`
	Total    int `json:"total_count"`
}

// listSize is the number of rows of a page.
const listSize = 100

// listQuery is what the address says about a list, in the API's own parameters, with defaults for the page.
func (v *visit) listQuery() url.Values {
	q := url.Values{"page": {"1"}, "page_size": {strconv.Itoa(listSize)}}
	for _, name := range []string{"page", "name", "use_regex", "sort", "sort_reverse"} {
		if value := v.URL.Query().Get(name); value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// queueColumn is a column of the list of queues that can be left out.
type queueColumn struct {
	Name   string // in the address
	Sort   string // the API's field, which Of shows
	Says   string
	Number bool
	usual  bool
	Of     func(q *queueRow) string
}

// queueColumns are the columns that there are.
func queueColumns() []queueColumn {
	return []queueColumn{
		{"state", "state", "State", false, true, func(q *queueRow) string { return q.State }},
		{"leader", "leader", "Leader", false, true, func(q *queueRow) string { return q.Leader }},
		{"members", "members", "Members", false, false, func(q *queueRow) string { return strings.Join(q.Members, " ") }},
		{"policy", "policy", "Policy", false, false, func(q *queueRow) string { return q.Policy }},
		{"ready", "messages_ready", "Ready", true, true, func(q *queueRow) string { return count(q.Ready) }},
		{"unacked", "messages_unacknowledged", "Unacked", true, true, func(q *queueRow) string { return count(q.Unacked) }},
		{"delayed", "messages_delayed", "Delayed", true, false, func(q *queueRow) string { return count(q.Delayed) }},
		{"dead", "messages_dlx", "Dead letters", true, true, func(q *queueRow) string { return count(q.DeadLetters) }},
		{"bytes", "message_bytes", "Bytes", true, false, func(q *queueRow) string { return byteSize(q.Bytes) }},
		{"consumers", "consumers", "Consumers", true, true, func(q *queueRow) string { return count(q.Consumers) }},
		{"oldest", "oldest_message_age_ms", "Oldest message", true, false, func(q *queueRow) string { return millis(q.OldestMs) }},
		{"in", "message_stats.publish_details.rate", "In", true, true, func(q *queueRow) string { return rate(q.Stats.Publish.Rate) }},
		{"out", "message_stats.deliver_get_details.rate", "Out", true, true, func(q *queueRow) string { return rate(q.Stats.Deliver.Rate) }},
		{"acks", "message_stats.ack_details.rate", "Acks", true, false, func(q *queueRow) string { return rate(q.Stats.Ack.Rate) }},
	}
}

// columnChoice is a column in the picker.
type columnChoice struct {
	Name, Says string
	On         bool
}

// queuesPage is the list of queues.
type queuesPage struct {
	Page     listPage[*queueRow]
	VHosts   []string
	Declares []string // vhosts in which the user may declare some
	Deletes  bool     // the user may delete some queue or other in the listed vhosts
	Purges   bool     // the same of purging
	Columns  []queueColumn
	Choices  []columnChoice
}

func loadQueues(v *visit) (any, error) {
	var p queuesPage
	var err error
	if p.VHosts, err = v.vhosts(); err != nil {
		return nil, err
	}
	may, err := v.rightsIn()
	if err != nil {
		return nil, err
	}
	p.Declares = declarable(may)
	vhost := v.URL.Query().Get("vhost")
	for _, r := range may {
		if vhost == "" || r.VHost == vhost {
			p.Deletes, p.Purges = p.Deletes || r.Configure, p.Purges || r.Read
		}
	}
	p.choose(v.URL.Query()["column"])
	query := v.listQuery()
	query.Set("columns", p.fields())
	err = v.listOf(&p.Page, query, "/api/queues")
	return p, err
}

// fields are those of the API that the list shows: a row has several times as many.
func (p *queuesPage) fields() string {
	all := []string{"name", "vhost", "metadata.uid"}
	for i := range p.Columns {
		all = append(all, p.Columns[i].Sort)
	}
	return strings.Join(all, ",")
}

// choose takes the columns that were picked, or the usual ones.
func (p *queuesPage) choose(picked []string) {
	for _, c := range queueColumns() {
		on := slices.Contains(picked, c.Name) || len(picked) == 0 && c.usual
		p.Choices = append(p.Choices, columnChoice{c.Name, c.Says, on})
		if on {
			p.Columns = append(p.Columns, c)
		}
	}
}

// vhosts returns the names of the vhosts that the user may see.
func (v *visit) vhosts() ([]string, error) {
	var all []struct {
		Name string `json:"name"`
	}
	if err := v.list(&all, url.Values{"columns": {"name"}, "disable_stats": {"true"}}, "/api/vhosts"); err != nil {
		return nil, err
	}
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	return names, nil
}

// chosenQueue is a queue that was chosen in the list.
type chosenQueue struct{ vhost, name string }

// chosen reads the queues that a form names.
func (v *visit) chosen() ([]chosenQueue, error) {
	if err := v.ParseForm(); err != nil {
		return nil, badForm("queue", err.Error())
	}
	keys := v.Form["queue"]
	if len(keys) == 0 {
		return nil, badForm("queue", "choose queues in the list first")
	}
	all := make([]chosenQueue, len(keys))
	for i, key := range keys {
		vhost, name, _ := strings.Cut(key, "/")
		var err [2]error
		all[i].vhost, err[0] = url.PathUnescape(vhost)
		all[i].name, err[1] = url.PathUnescape(name)
		if err[0] != nil || err[1] != nil {
			return nil, badForm("queue", strconv.Quote(key)+" does not name a queue")
		}
	}
	return all, nil
}

// asksBulk asks before something is done to all chosen queues.
func asksBulk(button string) func(v *visit) (question, error) {
	return func(v *visit) (question, error) {
		all, err := v.chosen()
		if err != nil {
			return question{}, err
		}
		q := question{
			Title: button + " " + plural(len(all), "queue") + "?", Name: strconv.Itoa(len(all)), Button: button, Back: "/ui/queues",
			Fields: url.Values{"queue": v.Form["queue"]},
		}
		for _, x := range all {
			var row queueRow
			if err := v.get(&row, "/api/queues/%s/%s", x.vhost, x.name); err != nil {
				return question{}, err
			}
			q.Lines = append(q.Lines, fmt.Sprintf("%s in %s: %s messages, %s consumers", row.Name, row.VHost, count(row.Messages), count(row.Consumers)))
		}
		return q, nil
	}
}

// doBulk sends a request about each chosen queue. It stops at the first refusal, and reports why and how many queues
// were done.
func doBulk(said, method, path string) func(v *visit) (outcome, error) {
	return func(v *visit) (outcome, error) {
		all, err := v.chosen()
		if err != nil {
			return outcome{}, err
		}
		for i, x := range all {
			err := v.change(method, nil, nil, path, x.vhost, x.name)
			switch f, is := errors.AsType[*fault](err); {
			case err == nil, missing(err):
			case is:
				f.Reason = fmt.Sprintf("%s %d of %d queues, then %s was refused: %s", said, i, len(all), strconv.Quote(x.name), f.Reason)
				return outcome{}, f
			default:
				return outcome{}, err
			}
		}
		return outcome{"/ui/queues", said + " " + plural(len(all), "queue") + "."}, nil
	}
}
