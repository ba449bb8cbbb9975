package page_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/management"
	"github.com/quorate/quorate/management/login"
)

// No script reads the cookie of a session, no other site's page sends it, and over TLS it never goes without. It ends with
// the session.
func TestSessionCookie(t *testing.T) {
	s := start(t, 1)
	h := management.New(management.Config{Broker: s.b, Node: "node-0", Version: "test", Cluster: "test"})
	t.Cleanup(h.Close)
	for secure, serve := range map[bool]func(http.Handler) *httptest.Server{false: httptest.NewServer, true: httptest.NewTLSServer} {
		server := serve(h)
		t.Cleanup(server.Close)
		client := server.Client()
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		send := func(r *http.Request) (*http.Cookie, string) {
			t.Helper()
			answer, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = answer.Body.Close() }()
			body, err := io.ReadAll(answer.Body)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range answer.Cookies() {
				if c.Name == "quorate_session" {
					return c, string(body)
				}
			}
			return nil, string(body)
		}
		request := func(method, path string, form url.Values) *http.Request {
			r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(form.Encode()))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			return r
		}
		given, _ := send(request(http.MethodPost, "/ui/login", url.Values{"user": {"guest"}, "password": {"guest"}}))
		if given == nil || !given.HttpOnly || given.SameSite != http.SameSiteStrictMode || given.Secure != secure || given.Path != "/ui/" ||
			given.MaxAge != int(login.SessionTime.Seconds()) || given.Domain != "" {
			t.Fatalf("with TLS %t: %+v", secure, given)
		}
		home := request(http.MethodGet, "/ui/", nil)
		home.AddCookie(given)
		_, page := send(home)
		found := tokenField.FindStringSubmatch(page)
		if found == nil {
			t.Fatalf("no form in\n%s", page)
		}
		out := request(http.MethodPost, "/ui/logout", url.Values{"form_token": {found[1]}})
		out.AddCookie(given)
		if taken, _ := send(out); taken == nil || taken.MaxAge >= 0 || taken.Value != "" || taken.Path != "/ui/" {
			t.Errorf("after the logout, with TLS %t: %+v", secure, taken)
		}
	}
}

// After some wrong passwords in a short time, more from the same address are refused unchecked, with the reason. A user whose
// password is known to be right can still log in.
func TestLoginsAtSpeed(t *testing.T) {
	s := start(t, 1)
	s.login("guest", "guest") // its password is known to be right now
	var refused atomic.Uint64
	var all sync.WaitGroup
	for i := range 3 * identity.LoginBurst { // at once: a try is given back every second
		all.Go(func() {
			answer, err := http.PostForm(s.base+"/ui/login", url.Values{"user": {"guest"}, "password": {fmt.Sprint("wrong", i)}}) //nolint:noctx // of a test
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = answer.Body.Close() }()
			body, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != http.StatusUnauthorized {
				t.Errorf("password %d: %s, %v", i, answer.Status, err)
			}
			if strings.Contains(string(body), "too many wrong passwords came from address 127.0.0.1") {
				refused.Add(1)
			}
		})
	}
	all.Wait()
	if n := s.b.Counters(); refused.Load() == 0 || n.LoginsUnseen != refused.Load() {
		t.Errorf("%d were refused unchecked, and %d counted", refused.Load(), n.LoginsUnseen)
	}
	s.login("guest", "guest")
}
