package rest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/internal/issuer"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/management/rest"
)

// patience is how long a test waits for what must come.
const patience = time.Minute

// sent is an event of a stream, or a comment.
type sent struct{ id, name, data, comment string }

// watching is a stream that a test reads.
type watching struct {
	t     *testing.T
	lines *bufio.Scanner
	close context.CancelFunc
}

// watch opens a stream.
func (a api) watch(path, last string) watching { return a.watchAs("guest", "guest", path, last) }

// watchAs is watch for any user.
func (a api) watchAs(user, password, path, last string) watching {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 3*patience) // all of the stream
	a.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	r.SetBasicAuth(user, password)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	w := reading(a.t, r)
	w.close = cancel
	return w
}

// reading sends a request for a stream.
func reading(t *testing.T, r *http.Request) watching {
	t.Helper()
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() }) // cancelled by then
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatal(answer.Status, answer.Header)
	}
	return watching{t: t, lines: bufio.NewScanner(answer.Body)}
}

// next returns the next event or comment; false: the stream has ended.
func (w watching) next() (x sent, more bool) {
	w.t.Helper()
	for w.lines.Scan() {
		if w.lines.Text() == "" {
			return x, true
		}
		name, value, _ := strings.Cut(w.lines.Text(), ": ")
		switch name {
		case "id":
			x.id = value
		case "event":
			x.name = value
		case "data":
			x.data = value
		case "": // a comment has no name
			x.comment = value
		default:
			w.t.Fatalf("%q", w.lines.Text())
		}
	}
	return x, false
}

// event returns the next event.
func (w watching) event() sent {
	w.t.Helper()
	for {
		x, more := w.next()
		if !more {
			w.t.Fatalf("the stream has ended: %v", w.lines.Err())
		}
		if x.data != "" {
			return x
		}
	}
}

// until returns the next event whose data have a text.
func (w watching) until(text string) sent {
	w.t.Helper()
	for {
		if x := w.event(); strings.Contains(x.data, text) {
			return x
		}
	}
}

// declare declares a queue.
func declare(t *testing.T, b *broker.Broker, name string) {
	t.Helper()
	ctx := identity.WithIdentity(t.Context(), identity.Itself())
	if _, err := b.DeclareQueue(ctx, broker.DeclareQueue{VHost: "/", Name: name, Durable: true}); err != nil {
		t.Fatal(err)
	}
}

// A stream has what happens, and one that was cut off continues behind its last event.
func TestEvents(t *testing.T) {
	a, c := one(t)
	w := a.watch("/v1/events?kinds=queue_created&name=e*", "")
	if x := w.event(); x.name != "begin" || x.id == "" {
		t.Errorf("%+v", x)
	}
	declare(t, a.b, "other")
	declare(t, a.b, "e1")
	first := w.event()
	if first.name != "" || first.id == "" || !strings.Contains(first.data, `"kind":"queue_created"`) || !strings.Contains(first.data, `"name":"e1"`) {
		t.Errorf("%+v", first)
	}
	w.close()
	declare(t, a.b, "e2")
	w = a.watch("/v1/events?kinds=queue_created&name=e*", first.id)
	if x := w.until("queue_created"); !strings.Contains(x.data, `"name":"e2"`) {
		t.Errorf("%+v", x)
	}
	w = a.watch("/v1/events?kinds=audit&cursor="+first.id, "")
	a.run([]row{{do: "PUT /api/users/eve", body: `{"tags":[]}`, code: 201}})
	if x := w.until(`"name":"eve"`); !strings.Contains(x.data, `"user":"guest"`) || !strings.Contains(x.data, `"user.put"`) {
		t.Errorf("%+v", x)
	}
	a.run([]row{
		{do: "GET /v1/events?kinds=nix", code: 400, want: has("nix")},
		{do: "GET /v1/events?cursor=nix", code: 400, want: has("cursor")},
		{do: "GET /v1/events?vhost=nix", code: 404},
		{who: "manager", do: "GET /v1/events?kinds=audit", code: 403},
		{who: "manager", do: "GET /v1/events", code: 403},
		{do: "GET /v1/operations/x/watch", code: 400, want: has("NODE.EPOCH.NUMBER")},
		{do: "GET /v1/operations/" + c.Name(0) + ".1.99/watch", code: 404},
	})
}

// A quiet stream outlasts the time limits of the server's other requests, with a comment now and
// then; there are only so many; and one that its client leaves makes room.
func TestStreamsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	h, served := rest.NewWith(whole(c), 2, 50*time.Millisecond)
	s := httptest.NewUnstartedServer(h)
	s.Config.ReadTimeout, s.Config.WriteTimeout = 2*time.Second, 2*time.Second // a login takes some of it
	s.Start()
	t.Cleanup(s.Close)
	addUsers(t, c.Broker(0))
	a := api{t: t, base: s.URL, b: c.Broker(0)}
	begun := time.Now()
	w, other := a.watch("/v1/events", ""), a.watch("/v1/events", "")
	a.run([]row{{do: "GET /v1/events", code: 503, want: has("2 streams")}})
	for time.Since(begun) < 5*time.Second {
		if x, more := w.next(); !more {
			t.Fatalf("the stream ends after %v, %+v: %v", time.Since(begun), x, w.lines.Err())
		}
	}
	declare(t, a.b, "late")
	w.until(`"name":"late"`)
	other.close()
	testcluster.Poll(t, "there is room", func() error {
		if n := served(); n != 1 {
			return fmt.Errorf("%d streams", n)
		}
		return nil
	})
	a.watch("/v1/events", "").event()
}

// When the server closes, as it does when the node stops, streams end and leave nothing behind.
func TestStreamsEndWithTheServer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	h, served := rest.NewWith(whole(c), 2, time.Minute)
	s := httptest.NewServer(h)
	a := api{t: t, base: s.URL, b: c.Broker(0)}
	w := a.watch("/v1/events", "")
	w.event()
	if err := s.Config.Close(); err != nil {
		t.Fatal(err)
	}
	if x, more := w.next(); more {
		t.Errorf("%+v", x)
	}
	testcluster.Poll(t, "the stream has ended", func() error {
		if n := served(); n != 0 {
			return fmt.Errorf("%d streams", n)
		}
		return nil
	})
}

// A stream ends soon after its caller has lost the right to see it: the tag, or the login.
func TestStreamsEndWithTheRight(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	h, _ := rest.NewWith(whole(c), 4, 50*time.Millisecond)
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	addUsers(t, c.Broker(0))
	a := api{t: t, base: s.URL, b: c.Broker(0)}
	a.run([]row{
		{do: "PUT /api/users/watcher", body: `{"tags":"monitoring","password":"p"}`, code: 201},
		{do: "PUT /api/permissions/%2F/watcher", body: `{"configure":".*","write":".*","read":".*"}`, code: 201},
	})
	live, events := a.watchAs("watcher", "p", "/v1/live", ""), a.watchAs("watcher", "p", "/v1/events", "")
	live.event()
	events.event()
	a.run([]row{{do: "PUT /v1/users/watcher/tags", body: `{"tags":"management"}`, code: 204}})
	live.until(`"error":"not_authorized"`)
	a.run([]row{{do: "DELETE /api/users/watcher", code: 204}})
	events.until(`"error":"not_authorized"`)
}

// brief returns a request for events with a token that ends soon, and when it does. The token logs in, and half of its time is
// left.
func brief(t *testing.T, i *issuer.Issuer, base string) (r *http.Request, ends time.Time) {
	t.Helper()
	for lasts := 4 * time.Second; lasts < patience; lasts *= 2 { // a login takes time
		ends = time.Now().Add(lasts)
		token := i.Sign("k", "EdDSA", i.Claims("ann", "quorate", map[string]any{"scope": "quorate.tag:monitoring", "exp": ends.Unix()}))
		request := func(path string) *http.Request {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+token)
			return r
		}
		answer, err := http.DefaultClient.Do(request("/api/whoami"))
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode == http.StatusOK && time.Until(ends) > lasts/2 {
			return request("/v1/events"), ends
		}
	}
	t.Fatal("no login in time")
	return nil, ends
}

// A stream ends when the token ends that its caller logged in with, and says so (ID-5).
func TestStreamsEndWithTheLogin(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	i := issuer.Start(t)
	i.Rotate("k", "EdDSA", false)
	c := testcluster.StartTokens(t, 1, i.URL())
	s := httptest.NewServer(rest.New(whole(c)))
	t.Cleanup(s.Close)
	r, ends := brief(t, i, s.URL)
	w := reading(t, r)
	if x := w.event(); x.name != "begin" {
		t.Errorf("%+v", x)
	}
	for x := w.event(); ; x = w.event() {
		if x.name != "fault" {
			continue
		}
		if !strings.Contains(x.data, `"error":"not_authorized"`) || time.Now().Before(ends.Truncate(time.Second)) {
			t.Errorf("%+v", x)
		}
		break
	}
	if x, more := w.next(); more {
		t.Errorf("%+v after the end", x)
	}
}

// deaf is the answer of a client that reads nothing: a write fails when its time is over.
type deaf struct {
	header http.Header
	until  chan time.Time
}

func (d *deaf) Header() http.Header             { return d.header }
func (d *deaf) WriteHeader(int)                 {}
func (d *deaf) Flush()                          {}
func (d *deaf) SetReadDeadline(time.Time) error { return nil }
func (d *deaf) SetWriteDeadline(t time.Time) error {
	select {
	case d.until <- t:
	default:
	}
	return nil
}

func (d *deaf) Write([]byte) (int, error) {
	if t := <-d.until; time.Until(t) > time.Minute {
		return 0, errors.New("a write without a time limit")
	}
	return 0, &net.OpError{Op: "write", Err: context.DeadlineExceeded}
}

// A client that does not read loses its stream when the time of a write is over.
func TestAClientThatDoesNotRead(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	h, served := rest.NewWith(whole(c), 2, time.Minute)
	d := &deaf{header: http.Header{}, until: make(chan time.Time, 1)}
	ended := make(chan struct{})
	go func() {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/events", nil)
		r.SetBasicAuth("guest", "guest")
		r.RemoteAddr = "127.0.0.1:9"
		h.ServeHTTP(d, r)
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the stream goes on")
	}
	if n := served(); n != 0 {
		t.Errorf("%d streams", n)
	}
}
