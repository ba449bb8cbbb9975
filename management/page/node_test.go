package page_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/testcluster"
)

// wants opens a page that must have texts; see has.
func (x *browser) wants(path string, texts ...string) string {
	x.t.Helper()
	body := x.page(path)
	x.has(body, texts...)
	return body
}

// leads sends a form that must succeed, and returns where it leads.
func (x *browser) leads(path string, form url.Values) string {
	x.t.Helper()
	code, body, to := x.post(path, form)
	if code != http.StatusSeeOther {
		x.t.Fatalf("%s %v: %d\n%s", path, form, code, body)
	}
	return to
}

// refuses sends a form that must be refused for a reason.
func (x *browser) refuses(path string, form url.Values, code int, reason string) {
	x.t.Helper()
	if got, body, _ := x.post(path, form); got != code || !strings.Contains(body, reason) {
		x.t.Errorf("%s %v: %d, want %d and %q in\n%s", path, form, got, code, reason, body)
	}
}

// ends waits on the page of an operation until it has ended well.
func (x *browser) ends(operation string) {
	x.t.Helper()
	if !strings.HasPrefix(operation, "/ui/operation?id=") {
		x.t.Fatalf("leads to %s", operation)
	}
	testcluster.Poll(x.t, "the operation ends", func() error {
		if body := x.page(operation); !strings.Contains(body, `<span class="badge done">done</span>`) {
			return fmt.Errorf("%s", body)
		}
		return nil
	})
}

// Nodes are shown with their figures, and what moves work between them leads to its operation.
func TestNodes(t *testing.T) {
	s, c := startCluster(t, 3)
	x := s.login("guest", "guest")
	x.leads("/ui/queues/declare", url.Values{"vhost": {"/"}, "name": {"q"}})
	node := c.Name(0)
	about := "/ui/node?name=" + node
	x.wants("/ui/nodes", c.Name(0), c.Name(1), c.Name(2), "Rebalance", ">runs<")
	x.wants(about, "Disk free", "Memory", "Descriptors", "±", "reads version", "Drain", "Grow", "Shrink", "GiB")
	x.wants("/ui/node/shrink?name="+node, "1 change is planned", "queue &#34;q&#34;", "leaves, 2 of 3 members stay")
	form := func(more ...string) url.Values {
		f := url.Values{"name": {node}, "typed": {node}}
		for i := 0; i < len(more); i += 2 {
			f.Set(more[i], more[i+1])
		}
		return f
	}
	x.refuses("/ui/node/shrink", url.Values{"name": {node}}, http.StatusBadRequest, "nothing was done")
	x.ends(x.leads("/ui/node/shrink", form()))
	x.wants("/ui/node/shrink?name="+node, "Nothing would change")
	x.wants("/ui/node/grow?even=true&name="+node+"&queue=other", "Nothing would change")
	x.wants("/ui/node/grow?even=true&vhost=%2F&queue=q&name="+node, "1 change is planned", `name="even" value="true"`)
	x.ends(x.leads("/ui/node/grow", form("even", "true", "vhost", "/", "queue", "q")))
	x.wants("/ui/nodes/rebalance", "leads")
	x.ends(x.leads("/ui/nodes/rebalance", url.Values{}))
	x.refuses("/ui/node/drain", form("seconds", "soon"), http.StatusBadRequest, "no whole number of seconds")
	x.ends(x.leads("/ui/node/drain", form("seconds", "600")))
	x.wants(about, "drained", "Undo the drain", "!Drain…")
	x.leads("/ui/node/undrain", url.Values{"name": {node}})
	x.wants(about, "takes work again", "Drain…")
	x.wants("/ui/operations", "drain", "grow-queues", "shrink-node", "rebalance-queues", ">done<")
	x.wants("/ui/operations?running=true", "No operation runs")
	if code, _, _ := x.get("/ui/node?name=%3Cb%3E"); code != http.StatusNotFound {
		t.Errorf("an unknown node: %d", code)
	}
	s.addUser("watcher", "monitoring")
	w := s.login("watcher", "p")
	w.wants("/ui/nodes", "!Rebalance")
	w.wants(about, "Disk free", "!Drain")
	w.refuses("/ui/node/drain", form(), http.StatusForbidden, "administrator")
	s.addUser("manager", "management")
	for _, path := range []string{"/ui/nodes", about, "/ui/operations"} {
		if code, _, _ := s.login("manager", "p").get(path); code != http.StatusForbidden {
			t.Errorf("%s for a manager: %d", path, code)
		}
	}
}

// api sends a request to the API as the user guest.
func (s site) api(method, path, body string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.SetBasicAuth("guest", "guest")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode >= http.StatusBadRequest {
		s.t.Fatalf("%s %s: %d %v", method, path, answer.StatusCode, err)
	}
}

// A long job is shown while it runs, and can be cancelled once.
func TestCancelOperation(t *testing.T) {
	s := start(t, 1)
	x := s.login("guest", "guest")
	x.leads("/ui/queues/declare", url.Values{"vhost": {"/"}, "name": {"<i>slow"}})
	for range 50 {
		s.api(http.MethodPost, "/api/exchanges/%2F/amq.default/publish", `{"routing_key":"<i>slow","properties":{},"payload":"x","payload_encoding":"string"}`)
	}
	s.api(http.MethodPost, "/v1/queues/%2F/%3Ci%3Eslow/messages/delete", `{"rate":1}`)
	list := x.wants("/ui/operations?running=true", "&lt;i&gt;slow", "!<i>", ">running<")
	_, id, _ := strings.Cut(list, `href="/ui/operation?id=`)
	id, _, _ = strings.Cut(id, `"`)
	id, err := url.QueryUnescape(id)
	if err != nil {
		t.Fatal(err)
	}
	about := "/ui/operation?id=" + url.QueryEscape(id)
	x.wants(about, "&lt;i&gt;slow", "!<i>", ">running<", "Cancel it…")
	x.wants("/ui/operation/cancel?id="+url.QueryEscape(id), "What it has changed so far stays")
	s.addUser("watcher", "monitoring")
	w := s.login("watcher", "p")
	w.wants(about, "!Cancel it…")
	w.refuses("/ui/operation/cancel", url.Values{"id": {id}}, http.StatusForbidden, "administrator")
	if to := x.leads("/ui/operation/cancel", url.Values{"id": {id}}); to != about {
		t.Errorf("leads to %s", to)
	}
	testcluster.Poll(t, "the operation ends", func() error {
		if body := x.page(about); !strings.Contains(body, ">cancelled<") {
			return fmt.Errorf("%s", body)
		}
		return nil
	})
	x.refuses("/ui/operation/cancel", url.Values{"id": {id}}, http.StatusBadRequest, "has ended already")
}
