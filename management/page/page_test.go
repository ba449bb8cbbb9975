package page_test

import (
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/watch"
)

// Who has not logged in, or has no right to see the page, sees nothing and changes nothing.
func TestLogin(t *testing.T) {
	s := start(t, 1)
	s.addUser("worker")
	x := s.open()
	for _, path := range []string{"/ui/", "/ui/queues", "/ui/queue/delete?vhost=%2F&name=q"} {
		if code, _, to := x.get(path); code != http.StatusSeeOther || to != "/ui/login?next="+url.QueryEscape(path) {
			t.Errorf("%s: %d to %q", path, code, to)
		}
	}
	if code, _, to := x.post("/ui/queues/declare", url.Values{"vhost": {"/"}, "name": {"q"}}); code != http.StatusSeeOther || to != "/ui/login" {
		t.Errorf("a form of somebody unknown: %d to %q", code, to)
	}
	for _, form := range []url.Values{{"user": {"guest"}, "password": {"wrong"}}, {"user": {"worker"}, "password": {"p"}}, {"token": {"wrong"}}, {}} {
		if code, body, _ := x.post("/ui/login", form); code != http.StatusUnauthorized || !strings.Contains(body, `role="alert"`) {
			t.Errorf("%v: %d\n%s", form, code, body)
		}
	}
	if minted, revoked := s.audited("worker", "token.mint"), s.audited("worker", "token.revoke"); minted != 1 || revoked != 1 {
		t.Errorf("the refused user got %d tokens, of which %d were revoked", minted, revoked)
	}
	for _, form := range []url.Values{{"token": {strings.Repeat("x", 4000)}}, {"user": {strings.Repeat("x", 20_000)}}} {
		if code, body, _ := x.post("/ui/login", form); code != http.StatusUnauthorized || !strings.Contains(body, `role="alert"`) {
			t.Errorf("a login of %d bytes: %d\n%s", len(form.Encode()), code, body)
		}
	}
	x = s.login("guest", "guest")
	session := x.cookie("quorate_session")
	for _, to := range []string{"https://example.org/", "//example.org/", "/ui/login", "javascript:alert(1)", `/ui/../\evil.example`, `/ui/#/../../\evil.example`, "/ui/%5Cevil", "/ui/..//evil.example"} {
		if code, _, got := s.open().post("/ui/login", url.Values{"user": {"guest"}, "password": {"guest"}, "next": {to}}); code != http.StatusSeeOther || got != "/ui/" {
			t.Errorf("next %q: %d to %q", to, code, got)
		}
	}
	s.keepsPastedTokens()
	if code, _, to := x.post("/ui/logout", url.Values{}); code != http.StatusSeeOther || to != "/ui/login" {
		t.Errorf("logout: %d to %q", code, to)
	}
	again := s.open()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.base+"/ui/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(&http.Cookie{Name: "quorate_session", Value: session})
	if code, _, _ := again.do(r); code != http.StatusSeeOther {
		t.Errorf("a session that was ended still opens the page: %d", code)
	}
}

// keepsPastedTokens checks that a token which the page did not mint outlives a refused login, and a session.
func (s site) keepsPastedTokens() {
	s.t.Helper()
	for user, code := range map[string]int{"worker": http.StatusUnauthorized, "guest": http.StatusSeeOther} {
		who, err := s.b.Logins.Login(s.t.Context(), user, map[string]string{"worker": "p", "guest": "guest"}[user], netip.MustParseAddr("127.0.0.1"))
		if err != nil {
			s.t.Fatal(err)
		}
		token, err := s.b.Logins.MintToken(identity.WithIdentity(s.t.Context(), who), 0)
		if err != nil {
			s.t.Fatal(err)
		}
		x := s.open()
		if got, body, _ := x.post("/ui/login", url.Values{"token": {token.Text}}); got != code {
			s.t.Errorf("a token of %s: %d\n%s", user, got, body)
		}
		if code == http.StatusSeeOther {
			x.form = x.formToken(x.page("/ui/"))
			x.post("/ui/logout", url.Values{})
		}
		if _, err := s.b.Logins.LoginToken(s.t.Context(), token.Text, netip.MustParseAddr("127.0.0.1")); err != nil {
			s.t.Errorf("the token of %s: %v", user, err)
		}
	}
}

// audited counts what a user has done.
func (s site) audited(user, operation string) int {
	s.t.Helper()
	tail, err := s.b.Events.Tail(identity.WithIdentity(s.t.Context(), identity.Itself()), watch.Choice{User: user, Operation: operation}, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	return len(tail.Events)
}

// cookie returns a cookie of the page.
func (x *browser) cookie(name string) string {
	x.t.Helper()
	at, err := url.Parse(x.base + "/ui/")
	if err != nil {
		x.t.Fatal(err)
	}
	for _, c := range x.client.Jar.Cookies(at) {
		if c.Name == name {
			return c.Value
		}
	}
	x.t.Fatalf("no cookie %s", name)
	return ""
}

// A form must be the session's own, whatever cookies the browser sends with it.
func TestForgedForms(t *testing.T) {
	s := start(t, 1)
	x := s.login("guest", "guest")
	declare := func(token, site string) int {
		form := url.Values{"vhost": {"/"}, "name": {"forged"}, "form_token": {token}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+"/ui/queues/declare", strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", site)
		code, _, _ := x.do(r)
		return code
	}
	for _, f := range []struct{ token, site string }{{"", "same-origin"}, {"wrong", "same-origin"}, {s.login("guest", "guest").form, "same-origin"}, {x.form, "cross-site"}} {
		if code := declare(f.token, f.site); code != http.StatusForbidden {
			t.Errorf("%+v: %d", f, code)
		}
	}
	if code, _, _ := x.get("/ui/queue?vhost=%2F&name=forged"); code != http.StatusNotFound {
		t.Errorf("the forged queue: %d", code)
	}
	if code := declare(x.form, "same-origin"); code != http.StatusSeeOther {
		t.Errorf("a genuine form: %d", code)
	}
}

// What destroys something asks for the name first.
func TestQuestions(t *testing.T) {
	s := start(t, 1)
	x := s.login("guest", "guest")
	about := url.Values{"vhost": {"/"}, "name": {"<b>q</b>"}}
	if code, body, _ := x.post("/ui/queues/declare", about); code != http.StatusSeeOther {
		t.Fatalf("declare: %d\n%s", code, body)
	}
	for _, act := range []string{"purge", "delete"} {
		path := "/ui/queue/" + act
		body := x.page(path + "?" + about.Encode() + "&typed=filled+in+by+a+link")
		if n := strings.Count(body, `name="typed"`); n != 1 || strings.Contains(body, "filled in by a link") {
			t.Errorf("%s has %d fields for the name", path, n)
		}
		if !strings.Contains(body, "&lt;b&gt;q&lt;/b&gt;") || strings.Contains(body, "<b>") {
			t.Errorf("%s shows the name as HTML", path)
		}
		if code, body, _ := x.post(path, url.Values{"vhost": {"/"}, "name": {"<b>q</b>"}, "typed": {"q"}}); code != http.StatusBadRequest || !strings.Contains(body, "nothing was done") {
			t.Errorf("%s with another name: %d\n%s", path, code, body)
		}
		if code, body, _ := x.post(path, url.Values{"vhost": {"/"}, "name": {"<b>q</b>"}, "typed": {"<b>q</b>"}}); code != http.StatusSeeOther {
			t.Errorf("%s: %d\n%s", path, code, body)
		}
	}
	x.refresh("/ui/queues") // of a page that is being left
	if body := x.page("/ui/queues"); !strings.Contains(body, "is deleted") {
		t.Error("the notice is missing")
	}
	if code, _, _ := x.get("/ui/queue?" + about.Encode()); code != http.StatusNotFound {
		t.Errorf("the deleted queue: %d", code)
	}
}

// Browsers run nothing but the page's own files, and show it in no frame.
func TestHeaders(t *testing.T) {
	s := start(t, 1)
	r, err := http.Get(s.base + "/ui/login") //nolint:noctx // of a test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	policy := r.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy %q lacks %q", policy, want)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Errorf("the policy %q allows what is inline", policy)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`(?:src|href)="(/ui/static/[^"]+)"`).FindAllStringSubmatch(string(body), -1) {
		if code, _, _ := s.open().get(found[1]); code != http.StatusOK {
			t.Errorf("%s: %d", found[1], code)
		}
	}
}
