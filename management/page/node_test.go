package page_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/testcluster"
)

// Nodes are shown with their figures, and what moves work between them leads to its operation.
func TestNodes(t *testing.T) {
	s, c := startCluster(t, 3)
	x := s.login("guest", "guest")
	x.leads("/ui/queues/declare", url.Values{"vhost": {"/"}, "name": {"q"}})
	node := c.Name(0)
	about := "/ui/node?name=" + node
	x.await("/ui/", `<span data-of="members">1</span> queues`) // the login has shown a sample from before the queue
	x.shows("/ui/", c.Name(0), c.Name(1), c.Name(2), ">runs<")
	x.shows("/ui/nodes", c.Name(0), c.Name(1), c.Name(2), "Rebalance", ">runs<", "Leads", "Member of", ">1 queues<", "Cores", "Confirm p99", "Fsync p99")
	x.shows(about, "Disk free", "Memory", "Descriptors", "±", "reads version", "Drain", "Grow", "Shrink", "GiB")
	for _, says := range []string{"Leads", "Member of", "Cores in use", "Fsync p99"} {
		x.figure(about, `<div class="says">`+says+`</div><div class="value">`)
	}
	for _, says := range []string{"Kept bodies of messages", "Newest entries of the log", "Other objects, garbage too", "Stacks and the Go runtime", "Program and all else", "Resident in all"} {
		x.figure(about, "<dt>"+says+"</dt><dd>")
	}
	x.figure("/ui/node?name="+c.Name(2), `<div class="says">Confirm p99</div><div class="value">`)
	x.shows("/ui/node/shrink?name="+node, "1 change is planned", "queue &#34;q&#34;", "leaves, 2 of 3 members stay")
	form := func(more ...string) url.Values {
		f := url.Values{"name": {node}, "typed": {node}}
		for i := 0; i < len(more); i += 2 {
			f.Set(more[i], more[i+1])
		}
		return f
	}
	x.refuses("/ui/node/shrink", url.Values{"name": {node}}, http.StatusBadRequest, "nothing was done")
	x.ends(x.leads("/ui/node/shrink", form()))
	x.shows("/ui/node/shrink?name="+node, "Nothing would change")
	x.shows("/ui/node/grow?even=true&name="+node+"&queue=other", "Nothing would change")
	x.shows("/ui/node/grow?even=true&vhost=%2F&queue=q&name="+node, "1 change is planned", `name="even" value="true"`)
	x.ends(x.leads("/ui/node/grow", form("even", "true", "vhost", "/", "queue", "q")))
	x.shows("/ui/nodes/rebalance", "leads")
	x.shows("/ui/node/drain?name="+node, "Drain node", "It stays a member of its 1 queue.")
	testcluster.Poll(t, "a drain of the queue's leader shows that it moves", func() error {
		for _, n := range []string{c.Name(0), c.Name(1), c.Name(2)} {
			if body := x.page("/ui/node/drain?name=" + n); strings.Contains(body, "The leaders of 1 queue move") && strings.Contains(body, "another member leads instead of node") {
				return nil
			}
		}
		return errors.New("no node leads it")
	})
	x.ends(x.leads("/ui/nodes/rebalance", url.Values{}))
	x.refuses("/ui/node/drain", form("seconds", "soon"), http.StatusBadRequest, "no whole number of seconds")
	x.ends(x.leads("/ui/node/drain", form("seconds", "600")))
	x.shows(about, "drained", "Undo the drain", "!Drain…")
	x.leads("/ui/node/undrain", url.Values{"name": {node}})
	x.shows(about, "takes work again", "Drain…")
	x.shows("/ui/operations", "drain", "grow-queues", "shrink-node", "rebalance-queues", ">done<")
	x.shows("/ui/operations?running=true", "No operation runs")
	if code, _, _ := x.get("/ui/node?name=%3Cb%3E"); code != http.StatusNotFound {
		t.Errorf("an unknown node: %d", code)
	}
	s.addUser("watcher", "monitoring")
	w := s.login("watcher", "p")
	w.shows("/ui/nodes", "!Rebalance")
	w.shows(about, "Disk free", "!Drain")
	w.refuses("/ui/node/drain", form(), http.StatusForbidden, "administrator")
	s.addUser("manager", "management")
	for _, path := range []string{"/ui/nodes", about, "/ui/operations"} {
		if code, _, _ := s.login("manager", "p").get(path); code != http.StatusForbidden {
			t.Errorf("%s for a manager: %d", path, code)
		}
	}
}

// figure waits until a page has a number after some markup: a figure of the last seconds may not be known at once, and
// those of confirms need messages, which it publishes.
func (x *browser) figure(path, after string) {
	x.t.Helper()
	number := regexp.MustCompile(regexp.QuoteMeta(after) + `\d`)
	testcluster.Poll(x.t, path+" has a number after "+after, func() error {
		x.api(http.MethodPost, "/api/exchanges/%2F/amq.default/publish", `{"routing_key":"q","properties":{},"payload":"x","payload_encoding":"string"}`)
		if body := x.page(path); !number.MatchString(body) {
			return errors.New(body)
		}
		return nil
	})
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
	list := x.shows("/ui/operations?running=true", "&lt;i&gt;slow", "!<i>", ">running<")
	_, id, _ := strings.Cut(list, `href="/ui/operation?id=`)
	id, _, _ = strings.Cut(id, `"`)
	id, err := url.QueryUnescape(id)
	if err != nil {
		t.Fatal(err)
	}
	about := "/ui/operation?id=" + url.QueryEscape(id)
	x.shows(about, "&lt;i&gt;slow", "!<i>", ">running<", "Cancel it…")
	x.shows("/ui/operation/cancel?id="+url.QueryEscape(id), "What it has changed so far stays")
	s.addUser("watcher", "monitoring")
	w := s.login("watcher", "p")
	w.shows(about, "!Cancel it…")
	w.refuses("/ui/operation/cancel", url.Values{"id": {id}, "typed": {"delete-messages"}}, http.StatusForbidden, "administrator")
	x.refuses("/ui/operation/cancel", url.Values{"id": {id}, "typed": {"delete"}}, http.StatusBadRequest, "nothing was done")
	if to := x.leads("/ui/operation/cancel", url.Values{"id": {id}, "typed": {"delete-messages"}}); to != about {
		t.Errorf("leads to %s", to)
	}
	testcluster.Poll(t, "the operation ends", func() error {
		if body := x.page(about); !strings.Contains(body, ">cancelled<") {
			return fmt.Errorf("%s", body)
		}
		return nil
	})
	x.refuses("/ui/operation/cancel", url.Values{"id": {id}, "typed": {"delete-messages"}}, http.StatusBadRequest, "has ended already")
}
