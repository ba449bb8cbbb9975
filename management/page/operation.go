package page

import (
	"net/http"
	"net/url"
)

// operationViews are the pages about long jobs.
func operationViews() []view {
	return []view{
		{path: "/ui/operations", file: "operations.html", title: "Operations", load: loadOperations},
		{path: "/ui/operation", file: "operation.html", title: "Operation", load: loadOperation},
		{path: "/ui/queue/operations", file: "queue_operations.html", title: "Operations of a queue", load: loadQueueOperations},
	}
}

// operationActions end long jobs early.
func operationActions() []action {
	return []action{{path: "/ui/operation/cancel", asks: asksCancel, does: cancelOperation}}
}

// operationRow is a long job.
type operationRow struct {
	ID      string  `json:"id"`
	Kind    string  `json:"kind"`
	Target  string  `json:"target"`
	Node    string  `json:"node"`
	State   string  `json:"state"`
	Phase   string  `json:"phase"`
	Done    int64   `json:"done"`
	Total   int64   `json:"total"` // 0 while it is not known
	Unit    string  `json:"unit"`
	Rate    float64 `json:"rate"`   // 0 while it is not known
	ETA     float64 `json:"eta_ms"` // 0 while it is not known
	Started float64 `json:"started_ms"`
	Updated float64 `json:"updated_ms"`
	Detail  string  `json:"detail"`
	Error   string  `json:"error"`
}

// Running reports whether the job has not ended.
func (o *operationRow) Running() bool { return o.State == "running" }

// Took is for how long the job has run, or had, in milliseconds.
func (o *operationRow) Took() float64 { return o.Updated - o.Started }

// begun is the API's answer to what begins a long job: the job, or for a dry run the plan.
type begun struct {
	Operation *operationRow `json:"operation"`
	Plan      []string      `json:"plan"`
	Total     int           `json:"plan_total"` // changes, also those without a line
}

// lines are the plan in sentences for a question.
func (b *begun) lines() []string {
	if b.Total == 0 {
		return []string{"Nothing would change."}
	}
	all := append([]string{plannedLine(b.Total)}, b.Plan...)
	if more := b.Total - len(b.Plan); more > 0 {
		all = append(all, "and "+count(more)+" more")
	}
	return all
}

// outcome redirects to the job that began.
func (b *begun) outcome(said string) outcome {
	if b.Operation == nil {
		return outcome{"/ui/operations", said}
	}
	return outcome{address("/ui/operation", "id", b.Operation.ID), said}
}

// operationsPage is the list of long jobs.
type operationsPage struct{ Page listPage[*operationRow] }

// newestFirst has the newest jobs come first, unless another order is asked for.
func newestFirst(q url.Values) url.Values {
	if !q.Has("sort") {
		q.Set("sort", "started_ms")
		q.Set("sort_reverse", "true")
	}
	return q
}

// queueOperationsPage is the list of long jobs about one queue.
type queueOperationsPage struct {
	Queue queueRow
	Page  listPage[*operationRow]
}

func loadQueueOperations(v *visit) (any, error) {
	var p queueOperationsPage
	var err error
	if p.Queue, err = v.getQueue(); err != nil {
		return nil, err
	}
	vhost, name := v.thisQueue()
	return &p, v.list(&p.Page, newestFirst(v.innerQuery()), "/v1/queues/%s/%s/operations", vhost, name)
}

func loadOperations(v *visit) (any, error) {
	var p operationsPage
	q := newestFirst(v.listQuery())
	if v.URL.Query().Get("running") != "" {
		q.Set("running", "true")
	}
	return p, v.list(&p.Page, q, "/v1/operations")
}

// getOperation asks for the job in the address.
func (v *visit) getOperation() (o operationRow, err error) {
	return o, v.get(&o, "/v1/operations/%s", v.FormValue("id"))
}

func loadOperation(v *visit) (any, error) {
	o, err := v.getOperation()
	return &o, err
}

// asksCancel asks for the kind of the job, which is the name that lists show.
func asksCancel(v *visit) (question, error) {
	o, err := v.getOperation()
	if err == nil && !o.Running() {
		err = &fault{Code: http.StatusBadRequest, Kind: "bad_request", Reason: "operation " + o.ID + " has ended already: it is " + o.State}
	}
	q := question{
		Title: "Cancel " + o.Kind + " of " + o.Target + "?", Name: o.Kind, Button: "Cancel the operation", Back: address("/ui/operation", "id", o.ID),
		Lines: []string{"It ends as soon as it can.", "What it has changed so far stays: " + count(o.Done) + " " + o.Unit + " of " + count(o.Total) + " are done."}, Fields: url.Values{"id": {o.ID}},
	}
	if o.Total == 0 {
		q.Lines[1] = "What it has changed so far stays."
	}
	return q, err
}

func cancelOperation(v *visit) (outcome, error) {
	id := v.FormValue("id")
	err := v.change(http.MethodDelete, nil, nil, "/v1/operations/%s", id)
	return outcome{address("/ui/operation", "id", id), "The operation was asked to end."}, err
}

// plannedLine is the line with the number of a plan's changes.
func plannedLine(n int) string {
	if n == 1 {
		return "1 change is planned:"
	}
	return count(n) + " changes are planned:"
}
