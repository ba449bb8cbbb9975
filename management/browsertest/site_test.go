package browsertest

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/management"
)

// served is the page of the last node of a cluster of three, over loopback.
type served struct {
	t       *testing.T
	cluster *testcluster.Cluster
	base    string
	// asked counts the requests for each path, and those by each method: "POST /ui/logout".
	mu    sync.Mutex
	asked map[string]int
	// refreshes answers requests of the page's scripts in the site's place, or has the site do it; nil: the site does.
	refreshes func(w http.ResponseWriter, r *http.Request, site http.Handler)
}

// serve starts the cluster. A test without a browser is skipped before.
func serve(t *testing.T) *served {
	t.Helper()
	needBrowser(t)
	t.Parallel()
	return start(t)
}

// start starts the cluster. A test that needs no browser, or must run alone, calls it in place of serve.
func start(t *testing.T) *served {
	t.Helper()
	// The nodes share few processors with browsers, and are not taken for dead as soon as they are slow.
	s := &served{t: t, cluster: testcluster.StartMany(t, 3, 0), asked: map[string]int{}}
	s.base = s.handle(t)
	return s
}

// answerRefreshes has a handler answer requests of the page's scripts from now on; nil: the site does.
func (s *served) answerRefreshes(h func(w http.ResponseWriter, r *http.Request, site http.Handler)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refreshes = h
}

// handle serves the page and counts what it is asked for.
func (s *served) handle(t testing.TB) string {
	t.Helper()
	h := management.New(management.Config{
		Broker: s.cluster.Broker(2), Node: s.cluster.Name(2), Version: "test", Cluster: "test", Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	t.Cleanup(h.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked[r.URL.Path]++
		s.asked[r.Method+" "+r.URL.Path]++
		refreshes := s.refreshes
		s.mu.Unlock()
		if refreshes != nil && r.Header.Get("HX-Request") == "true" {
			refreshes(w, r, h)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	return server.URL
}

// asks returns how often a path was asked for, or by a method.
func (s *served) asks(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[path]
}

// dial connects a client, which makes what the page shows.
func (s *served) dial(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), client.Config{Addresses: s.cluster.Addrs(), ProbeTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// root is a context of somebody who may do everything.
func (s *served) root() context.Context {
	return identity.WithIdentity(s.t.Context(), identity.Itself())
}

// addUser adds a user with the password p and tags.
func (s *served) addUser(name string, tags ...string) {
	s.t.Helper()
	if _, err := s.cluster.Broker(2).Administration.PutUser(s.root(), administration.PutUser{Name: name, Tags: tags, Password: "p"}); err != nil {
		s.t.Fatal(err)
	}
}

// declare declares queues.
func declare(t testing.TB, c *client.Client, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := c.DeclareQueue(t.Context(), client.Queue{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
}

// enter logs in without a browser.
func (s *served) enter(t testing.TB) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	x := &http.Client{Jar: jar}
	answer, err := send(t, x, http.MethodPost, s.base+"/ui/login", url.Values{"user": {"guest"}, "password": {"guest"}})
	if err != nil {
		t.Fatal(err)
	}
	_, copied := io.Copy(io.Discard, answer.Body)
	if err := answer.Body.Close(); err != nil || copied != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status, err, copied)
	}
	return x
}

// send sends a request, with a form if there is one. The caller closes the answer's body.
func send(t testing.TB, x *http.Client, method, to string, form url.Values) (*http.Response, error) {
	r, err := http.NewRequestWithContext(t.Context(), method, to, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return x.Do(r)
}

// await waits until something is so.
func (s *served) await(what string, f func() error) {
	s.t.Helper()
	testcluster.Poll(s.t, what, f)
}
