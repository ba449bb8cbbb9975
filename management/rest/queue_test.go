package rest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/internal/testcluster"
)

// get decodes the answer to a GET.
func (a api) get(who, path string, out any) http.Header {
	a.t.Helper()
	code, header, text := a.ask(who, "GET "+path, "")
	if code != http.StatusOK {
		a.t.Fatalf("GET %s: %d %s", path, code, text)
	}
	if err := json.Unmarshal([]byte(text), out); err != nil {
		a.t.Fatalf("GET %s: %v: %s", path, err, text)
	}
	return header
}

// queue declares a queue and publishes messages to it.
func (a api) queue(name string, messages int) {
	a.t.Helper()
	a.run([]row{{do: "PUT /api/queues/%2F/" + name, code: http.StatusCreated}})
	for range messages {
		a.run([]row{publishTo(name)})
	}
}

// publishTo publishes a message to a queue.
func publishTo(queue string) row {
	return row{
		do: "POST /api/exchanges/%2F/amq.default/publish", code: http.StatusOK, want: has(`"routed":true`),
		body: fmt.Sprintf(`{"routing_key":%q,"payload":"x","payload_encoding":"string","properties":{}}`, queue),
	}
}

// Queues are listed with the figures of their leaders on whatever node, by page, name and order, and only those that the
// caller may see (VH-12).
func TestQueuesWithFigures(t *testing.T) {
	a := start(t, 3)
	for i := range 6 {
		name := fmt.Sprintf("q%d", i)
		if i == 5 {
			name = "mine.q"
		}
		a.queue(name, i)
	}
	type queue struct {
		Name, State, Leader string
		Messages            *uint64
		Ready               *uint64 `json:"messages_ready"`
		Members, Online     []string
		Stats               struct{ Publish uint64 } `json:"message_stats"`
	}
	testcluster.Poll(t, "all figures are there", func() error {
		var all []queue
		if a.get("", "/api/queues/%2F", &all); len(all) != 6 {
			t.Fatalf("%d queues: %+v", len(all), all)
		}
		for _, q := range all {
			var want uint64
			if _, err := fmt.Sscanf(q.Name, "q%d", &want); err != nil {
				want = 5
			}
			if q.Ready == nil || *q.Ready != want || q.Stats.Publish != want || *q.Messages != want || q.State != "running" || q.Leader == "" || len(q.Online) != 3 {
				return fmt.Errorf("%+v, want %d", q, want)
			}
		}
		return nil
	})
	var page struct {
		Items                        []queue
		Total, Filtered, Count, Size int
	}
	a.get("", "/api/queues?page=1&page_size=2&sort=messages&sort_reverse=true&name=q&columns=name,messages", &page)
	if len(page.Items) != 2 || page.Items[0].Name != "mine.q" || page.Items[1].Name != "q4" || page.Items[0].State != "" {
		t.Errorf("%+v", page.Items)
	}
	var bare []queue
	a.get("", "/api/queues?disable_stats=true&name=%5Eq%5B01%5D&use_regex=true", &bare)
	if len(bare) != 2 || bare[0].Messages != nil || bare[0].State != "" {
		t.Errorf("%+v", bare)
	}
	var totals []queue
	a.get("", "/api/queues?disable_stats=true&enable_queue_totals=true&name=q3", &totals)
	if len(totals) != 1 || totals[0].Messages == nil || *totals[0].Messages != 3 {
		t.Errorf("%+v", totals)
	}
	var seen []queue
	a.get("stranger", "/api/queues", &seen)
	if len(seen) != 0 {
		t.Errorf("a user without permissions sees %+v", seen)
	}
	var one queue
	a.get("", "/api/queues/%2F/q3", &one)
	if *one.Messages != 3 || one.State != "running" {
		t.Errorf("%+v", one)
	}
	a.run([]row{
		{do: "GET /api/queues/%2F/nix", code: 404},
		{do: "GET /api/queues/nix", code: 404},
		{do: "GET /api/queues?page=0", code: 400, want: has("page")},
		{do: "GET /api/queues?page=92233720368547760", code: 400, want: has("is beyond the last page")}, // its rows overflow
		{do: "GET /api/queues?page=1&page_size=501", code: 400, want: has("want 1 to 500")},
		{do: "GET /api/queues?name=(&use_regex=true", code: 400, want: has("regular expression")},
		{who: "worker", do: "GET /api/queues", code: 403},
		{who: "nobody", do: "GET /api/queues", code: 401},
	})
}

// The overview adds up, and nodes are shown to those who monitor; one that is away is named, and its queues go on.
func TestOverviewAndNodes(t *testing.T) {
	a := start(t, 3)
	for _, name := range []string{"a", "b"} {
		a.queue(name, 1)
	}
	var all struct {
		Objects map[string]int `json:"object_totals"`
		Queues  struct {
			Ready uint64 `json:"messages_ready"`
		} `json:"queue_totals"`
		Stats   struct{ Confirm uint64 } `json:"message_stats"`
		Cluster string                   `json:"cluster_name"`
	}
	testcluster.Poll(t, "the overview adds up", func() error {
		a.get("", "/api/overview", &all)
		if all.Queues.Ready != 2 || all.Objects["queues"] != 2 || all.Stats.Confirm != 2 || all.Objects["exchanges"] < 7 {
			return fmt.Errorf("%+v", all)
		}
		return nil
	})
	var nodes []map[string]any
	if a.get("", "/api/nodes", &nodes); len(nodes) != 3 || nodes[0]["running"] != true || nodes[0]["disk_free_alarm"] != false || nodes[0]["mem_alarm"] != false {
		t.Errorf("%v", nodes)
	}
	for _, field := range []string{"mem_used", "fd_used", "fd_total", "proc_used", "processors", "uptime", "disk_free"} {
		if n, is := nodes[0][field].(float64); !is || n <= 0 {
			t.Errorf("%s is %v", field, nodes[0][field])
		}
	}
	a.run([]row{
		{do: "GET /api/nodes/node-1", code: 200, want: has(`"running":true`)},
		{do: "GET /api/nodes/nix", code: 404},
		{who: "manager", do: "GET /api/nodes", code: 403},
		{who: "manager", do: "GET /api/overview", code: 200, want: has(`"queues":2`, "!message_stats")},
		{who: "nobody", do: "GET /api/overview", code: 401},
	})
	a.cluster.Kill(0)
	testcluster.Poll(t, "the node that is away is named, and all queues have figures again", func() error {
		var queues []struct {
			Messages *uint64
			Online   []string
		}
		header := a.get("", "/api/queues", &queues)
		for _, q := range queues {
			if q.Messages == nil || *q.Messages != 1 || len(q.Online) != 2 {
				return fmt.Errorf("%+v", q)
			}
		}
		if silent := header.Get("Quorate-Silent"); !strings.Contains(silent, "node-0") {
			return fmt.Errorf("silent: %q", silent)
		}
		return nil
	})
}

// What a list of queues is sorted by is what its rows have.
func TestBriefQueues(t *testing.T) {
	a := start(t, 3)
	a.queue("a", 3)
	a.queue("b", 1)
	a.run([]row{{do: "PUT /api/policies/%2F/p", body: `{"pattern":"^b","definition":{"max-length":9}}`, code: http.StatusCreated}})
	ctx := identity.WithIdentity(t.Context(), identity.Itself())
	check := func(figures bool) error {
		l, err := a.b.Queues.List(ctx, "", figures)
		if err != nil || l.Len() != 2 {
			t.Fatal(l, err)
		}
		for i := range l.Len() {
			q, x := l.Queue(i), l.Brief(i)
			if x.UID != q.UID || x.VHost != q.VHost || x.State != q.State || x.Leader != q.Leader || x.Known != (q.Stats != nil) || l.Policy(i) != q.Policy {
				t.Fatalf("%+v of %+v", x, q)
			}
			if figures && q.Stats == nil {
				return fmt.Errorf("%s has no figures", q.Name)
			}
			if s := q.Stats; s != nil && (x.Ready != s.Ready || x.Bytes != s.ReadyBytes || x.Messages() != s.Ready || x.Consumers != 0) {
				t.Fatalf("%+v of %+v", x, s)
			}
		}
		return nil
	}
	if err := check(false); err != nil {
		t.Error(err)
	}
	testcluster.Poll(t, "all queues have figures", func() error { return check(true) })
	for i := range 9 {
		a.run([]row{{do: fmt.Sprintf("PUT /api/queues/%%2F/two%d", i), body: `{"arguments":{"x-quorum-initial-group-size":2}}`, code: http.StatusCreated}})
	}
	a.cluster.Kill(0)
	testcluster.Poll(t, "a queue of two members has no majority", func() error {
		l, err := a.b.Queues.List(ctx, "", true)
		if err != nil {
			return err
		}
		few := 0
		for i := range l.Len() {
			q, x := l.Queue(i), l.Brief(i)
			if x.State != q.State || x.Leader != q.Leader || x.Known != (q.Stats != nil) {
				t.Fatalf("%+v of %+v", x, q)
			}
			if x.State == "minority" && !x.Known && slices.Contains(q.Members, a.cluster.Name(0)) {
				few++
			}
		}
		if few == 0 {
			return errors.New("all have one")
		}
		return nil
	})
}

// The rates of a list and of the overview are those of what happens meanwhile.
func TestRates(t *testing.T) {
	a := start(t, 1)
	a.queue("q", 1)
	type stats struct {
		Publish uint64
		Rate    struct{ Rate float64 } `json:"publish_details"`
	}
	testcluster.Poll(t, "the rates are those of the publishes", func() error {
		a.run([]row{publishTo("q")})
		var queues []struct {
			Stats stats `json:"message_stats"`
		}
		var all struct {
			Stats stats `json:"message_stats"`
		}
		var vhosts []struct {
			Stats stats `json:"message_stats"`
		}
		a.get("", "/api/queues", &queues)
		a.get("", "/api/overview", &all)
		a.get("", "/api/vhosts", &vhosts)
		var exchange struct {
			Stats struct {
				Publish uint64                 `json:"publish_in"`
				Rate    struct{ Rate float64 } `json:"publish_in_details"`
			} `json:"message_stats"`
		}
		a.get("", "/api/exchanges/%2F/amq.default", &exchange)
		for _, s := range []stats{queues[0].Stats, all.Stats, vhosts[0].Stats, stats(exchange.Stats)} {
			if s.Rate.Rate <= 0 || s.Rate.Rate > float64(s.Publish) {
				return fmt.Errorf("%+v", s)
			}
		}
		return nil
	})
}
