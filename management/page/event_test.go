package page_test

import (
	"bufio"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/quorate/quorate/cluster/event"
)

// reads reads a stream until it has a text.
func (x *browser) reads(path, text string) {
	x.t.Helper()
	r, err := http.NewRequestWithContext(x.t.Context(), http.MethodGet, x.base+path, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	answer, err := x.client.Do(r)
	if err != nil {
		x.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if kind := answer.Header.Get("Content-Type"); answer.StatusCode != http.StatusOK || kind != "text/event-stream" {
		x.t.Fatalf("%s: %d, %s", path, answer.StatusCode, kind)
	}
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if strings.Contains(lines.Text(), text) {
			return
		}
	}
	x.t.Errorf("%s: ended before %q", path, text)
}

// feed finds the address of a page's stream.
func (x *browser) feed(page string) string {
	x.t.Helper()
	_, found, _ := strings.Cut(page, `data-feed="`)
	found, _, is := strings.Cut(found, `"`)
	if !is {
		x.t.Fatalf("no stream in\n%s", page)
	}
	return strings.ReplaceAll(found, "&amp;", "&")
}

// The page of events offers all kinds, and leads to a stream with history; the filter is part of the addresses.
func TestEvents(t *testing.T) {
	s := start(t, 1)
	x := s.login("guest", "guest")
	x.leads("/ui/queues/declare", url.Values{"vhost": {"/"}, "name": {"seen"}})
	page := x.page("/ui/events")
	for _, k := range event.Kinds() {
		if !strings.Contains(page, `value="`+string(k)+`"`) {
			t.Errorf("the kind %s cannot be chosen", k)
		}
	}
	x.reads(x.feed(page), `"name":"seen"`)
	page = x.shows(`/ui/events?vhost=%2F&kinds=queue_created&kinds=queue_deleted&name=%22%3Cb%3E`, `value="queue_created" checked`, "2 chosen", "!<b>")
	if feed := x.feed(page); feed != "/ui/feed/events?history=true&kinds=queue_created%2Cqueue_deleted&name=%22%3Cb%3E&vhost=%2F" {
		t.Error(feed)
	}
	s.addUser("manager", "management")
	s.api(http.MethodPut, "/api/permissions/%2F/manager", `{"configure":".*","write":".*","read":".*"}`)
	m := s.login("manager", "p")
	page = m.shows("/ui/events", `!<option value="">all`)
	m.reads(m.feed(page), `"name":"seen"`)
}

// The log and the audit records are for administrators alone.
func TestLogAndAudit(t *testing.T) {
	s, c := startCluster(t, 1)
	x := s.login("guest", "guest")
	page := x.shows("/ui/log?level=warn&contains=%3Cb%3E", `<option selected value="warn">`, "&lt;b&gt;", "!<b>")
	if feed := x.feed(page); feed != "/ui/feed/log?contains=%3Cb%3E&level=warn&limit=300" {
		t.Error(feed)
	}
	x.reads(x.feed(x.page("/ui/log")), "event: begin")
	x.reads(x.feed(x.shows("/ui/log?node="+c.Name(0), "<option selected>"+c.Name(0))), `"node":"`+c.Name(0)+`"`)
	x.leads("/ui/queues/declare", url.Values{"vhost": {"/"}, "name": {"<s>made"}})
	x.shows("/ui/audit", "queue.declare", "&lt;s&gt;made", "!<s>", "done", "guest", "http")
	x.shows("/ui/audit?operation=login&vhost=&user=guest", "!queue.declare", "login")
	x.shows("/ui/audit?user=nobody&limit=9999999", "No record matches")
	if code, body, _ := x.get("/ui/audit?operation=%5B"); code != http.StatusBadRequest || !strings.Contains(body, "cannot be read") {
		t.Errorf("a pattern that is none: %d\n%s", code, body)
	}
	s.addUser("watcher", "monitoring")
	w := s.login("watcher", "p")
	for _, path := range []string{"/ui/log", "/ui/audit", "/ui/definitions", "/ui/feed/log", "/ui/definitions/export"} {
		if code, _, _ := w.get(path); code != http.StatusForbidden {
			t.Errorf("%s: %d", path, code)
		}
	}
	w.shows("/ui/events", "!/ui/audit", "!/ui/log\"")
}
