package rest_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
)

// sample is what tests look at of a sample of /v1/live.
type sample struct {
	At             int64
	Cluster        string
	Totals         map[string]float64
	Rates          map[string]float64
	Objects        map[string]float64
	Nodes          []sampledNode
	Silent, Alarms []string
}

// sampledNode is a node in it.
type sampledNode struct {
	Name         string
	Answers      bool
	Leads, Ready int
	Members      int
	Phase        string `json:"start_phase"`
	Refused      *string
	CPU          *float64
	Processors   *int
	Memory       *float64 `json:"memory_bytes"`
	MemoryLimit  *float64 `json:"memory_limit_bytes"`
	ConfirmP99   *float64 `json:"confirm_p99_ms"`
	FsyncP99     *float64 `json:"fsync_p99_ms"`
	DiskFree     *float64 `json:"disk_free_bytes"`
	Disk         *float64 `json:"disk_bytes"`
}

// measured reports whether a node has said what it uses.
func (n *sampledNode) measured() bool {
	for _, x := range []*float64{n.CPU, n.Memory, n.DiskFree, n.Disk} {
		if x == nil || *x <= 0 {
			return false
		}
	}
	return n.Processors != nil && *n.Processors > 0 && n.MemoryLimit != nil && *n.Disk >= *n.DiskFree && n.FsyncP99 != nil
}

// samples decodes an event's data.
func samples[T any](t *testing.T, x sent) (out T) {
	t.Helper()
	if err := json.Unmarshal([]byte(x.data), &out); err != nil {
		t.Fatalf("%v: %+v", err, x)
	}
	return out
}

// The stream of a node has the figures of all nodes. One that goes silent ends no stream: it is named, and the next
// viewer gets what was seen before.
func TestLive(t *testing.T) {
	a := start(t, 3)
	w := a.watch("/v1/live", "")
	if x := w.event(); x.name != "history" || x.data != "[]" {
		t.Fatalf("%+v", x)
	}
	a.queue("q", 2)
	x := samples[sample](t, w.until(`"ready":2`))
	for len(x.Silent) > 0 { // a node that is busy may miss a sample
		x = samples[sample](t, w.until(`"ready":2`))
	}
	leads, ready := 0, 0
	for _, n := range x.Nodes {
		leads, ready = leads+n.Leads, ready+n.Ready
		if !n.Answers || n.Name == "" || n.Members != 1 || n.Phase != "started" || n.Refused == nil || *n.Refused != "" {
			t.Errorf("%+v", n)
		}
	}
	if x.Totals["queues"] != 1 || len(x.Nodes) != 3 || leads != 1 || ready != 2 || x.Objects["vhosts"] != 1 || len(x.Objects) != 6 || len(x.Rates) != 6 || len(x.Totals) != 7 {
		t.Errorf("%+v", x)
	}
	for _, list := range [][]string{x.Silent, x.Alarms} {
		if list == nil || len(list) != 0 {
			t.Errorf("%+v", x)
		}
	}
	for more := true; more; { // until the stream ends at the latest
		a.run([]row{publishTo("q")})
		x := samples[sample](t, w.event())
		more = slices.ContainsFunc(x.Nodes, func(n sampledNode) bool { return !n.measured() }) ||
			!slices.ContainsFunc(x.Nodes, func(n sampledNode) bool { return n.ConfirmP99 != nil && *n.ConfirmP99 > 0 }) || x.Rates["publish"] == 0
	}
	a.cluster.Kill(0)
	x = samples[sample](t, w.until(`"silent":["node-0"]`))
	i := slices.IndexFunc(x.Nodes, func(n sampledNode) bool { return n.Name == "node-0" })
	if i < 0 || x.Nodes[i].Answers {
		t.Errorf("%+v", x)
	}
	var newest sample
	code, _, text := a.ask("", "GET /v1/live/newest", "")
	if err := json.Unmarshal([]byte(text), &newest); code != http.StatusOK || err != nil || newest.At < x.At || len(newest.Nodes) != 3 || !slices.Equal(newest.Silent, x.Silent) {
		t.Errorf("%d %s, %v", code, text, err)
	}
	seen := samples[[]sample](t, a.watch("/v1/live", "").event())
	if len(seen) < 2 || !slices.IsSortedFunc(seen, func(a, b sample) int { return int(a.At - b.At) }) {
		t.Errorf("%+v", seen)
	}
}
