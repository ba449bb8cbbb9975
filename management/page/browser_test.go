package page_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/management"
)

// site is the page of one node, served over loopback.
type site struct {
	t    *testing.T
	b    *broker.Broker
	base string
	amqp string // the node's address for clients
}

// start starts a cluster whose last node serves the page.
func start(t *testing.T, nodes int) site {
	s, _ := startCluster(t, nodes)
	return s
}

// startCluster is start that returns the cluster, too.
func startCluster(t *testing.T, nodes int) (site, *testcluster.Cluster) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	t.Parallel()
	c := testcluster.Start(t, nodes)
	b := c.Broker(nodes - 1)
	h := management.New(management.Config{Broker: b, Node: c.Name(nodes - 1), Version: "test", Cluster: "test", Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	t.Cleanup(h.Close)
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return site{t, b, s.URL, c.AMQP(nodes - 1)}, c
}

// browser keeps cookies and follows no redirects, as the tests look at them.
type browser struct {
	site
	client *http.Client
	form   string // the token of the session's forms
}

// open begins without a session.
func (s site) open() *browser {
	s.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return &browser{s, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, ""}
}

// login opens a browser in which a user has logged in.
func (s site) login(user, password string) *browser {
	s.t.Helper()
	x := s.open()
	code, _, to := x.post("/ui/login", url.Values{"user": {user}, "password": {password}})
	if code != http.StatusSeeOther || to != "/ui/" {
		s.t.Fatalf("login of %s: %d to %q", user, code, to)
	}
	x.form = x.formToken(x.page("/ui/"))
	return x
}

var tokenField = regexp.MustCompile(`name="form_token" value="([^"]+)"`)

// formToken finds the token of the forms in a page.
func (x *browser) formToken(page string) string {
	x.t.Helper()
	found := tokenField.FindStringSubmatch(page)
	if found == nil {
		x.t.Fatalf("no form in\n%s", page)
	}
	return found[1]
}

// do sends a request.
func (x *browser) do(r *http.Request) (code int, body, to string) {
	x.t.Helper()
	answer, err := x.client.Do(r)
	if err != nil {
		x.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		x.t.Fatal(err)
	}
	return answer.StatusCode, string(b), answer.Header.Get("Location")
}

// get opens an address.
func (x *browser) get(path string) (code int, body, to string) {
	x.t.Helper()
	r, err := http.NewRequestWithContext(x.t.Context(), http.MethodGet, x.base+path, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	return x.do(r)
}

// page opens a page that must be there.
func (x *browser) page(path string) string {
	x.t.Helper()
	code, body, to := x.get(path)
	if code != http.StatusOK {
		x.t.Fatalf("%s: %d to %q\n%s", path, code, to, body)
	}
	x.identifies(path, body)
	return body
}

var idAttribute = regexp.MustCompile(`\sid="([^"]*)"`)

// identifies reports ids that several elements of a page have. A refresh takes all of them for what is refreshed, and puts
// those in its place.
func (x *browser) identifies(path, page string) {
	x.t.Helper()
	seen := map[string]bool{}
	for _, found := range idAttribute.FindAllStringSubmatch(page, -1) {
		if seen[found[1]] {
			x.t.Errorf("%s has several elements with the id %q", path, found[1])
		}
		seen[found[1]] = true
	}
}

// post sends a form with the session's token.
func (x *browser) post(path string, form url.Values) (code int, body, to string) {
	x.t.Helper()
	if x.form != "" && !form.Has("form_token") {
		form.Set("form_token", x.form)
	}
	r, err := http.NewRequestWithContext(x.t.Context(), http.MethodPost, x.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		x.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return x.do(r)
}

// refresh opens an address as the page's script does.
func (x *browser) refresh(path string) {
	x.t.Helper()
	r, err := http.NewRequestWithContext(x.t.Context(), http.MethodGet, x.base+path, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	r.Header.Set("HX-Request", "true")
	if code, body, _ := x.do(r); code != http.StatusOK {
		x.t.Fatalf("%s: %d\n%s", path, code, body)
	}
}

// byScript sends a form as the page's script does.
func (x *browser) byScript(path string, form url.Values) (code int, body string) {
	x.t.Helper()
	form.Set("form_token", x.form)
	r, err := http.NewRequestWithContext(x.t.Context(), http.MethodPost, x.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		x.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("HX-Request", "true")
	code, body, _ = x.do(r)
	return code, body
}

// regexpOne returns the group of a pattern that a page must match.
func regexpOne(t *testing.T, pattern, page string) string {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("nothing matches %s in\n%s", pattern, page)
	}
	return found[1]
}

// addUser adds a user with the password p and tags.
func (s site) addUser(name string, tags ...string) {
	s.t.Helper()
	root := identity.WithIdentity(s.t.Context(), identity.Itself())
	if _, err := s.b.Administration.PutUser(root, administration.PutUser{Name: name, Tags: tags, Password: "p"}); err != nil {
		s.t.Fatal(err)
	}
}

// has reports all texts that a page lacks, and with ! before them those that it has.
func (x *browser) has(page string, texts ...string) {
	x.t.Helper()
	for _, text := range texts {
		without, not := strings.CutPrefix(text, "!")
		if not == strings.Contains(page, without) {
			x.t.Errorf("%q in the page is not as wanted:\n%s", text, page)
		}
	}
}

// does sends a form that must succeed, and returns the page that it leads to.
func (x *browser) does(path string, form url.Values) string {
	x.t.Helper()
	return x.page(x.leads(path, form))
}

// destroys answers the question before something is destroyed: first with another name, which does nothing.
func (x *browser) destroys(path string, about url.Values, typed string, says ...string) string {
	x.t.Helper()
	x.has(x.page(path+"?"+about.Encode()), says...)
	form := url.Values{}
	for name, values := range about {
		form[name] = values
	}
	if typed != "" {
		form.Set("typed", typed+"x")
		x.refuses(path, form, http.StatusBadRequest, "nothing was done")
		form.Set("typed", typed)
	}
	return x.does(path, form)
}

// form makes a form of names and values in turn.
func form(pairs ...string) url.Values {
	out := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		out.Add(pairs[i], pairs[i+1])
	}
	return out
}

// about is the query of pages about a queue in the default vhost; more are names and values.
func about(name string, more ...string) string { return "?" + aboutForm(name, more...).Encode() }

// aboutForm is about as a form.
func aboutForm(name string, more ...string) url.Values {
	return form(append([]string{"vhost", "/", "name", name}, more...)...)
}

// await waits until a page has a text.
func (x *browser) await(path, want string) {
	x.t.Helper()
	testcluster.Poll(x.t, path+" has "+want, func() error {
		if _, body, _ := x.get(path); !strings.Contains(body, want) {
			return errors.New(body)
		}
		return nil
	})
}

// operationsEnd waits until no operation runs: a queue takes one of a kind at a time.
func (x *browser) operationsEnd() {
	x.t.Helper()
	testcluster.Poll(x.t, "operations end", func() error {
		r, err := http.NewRequestWithContext(x.t.Context(), http.MethodGet, x.base+"/v1/operations?running", nil)
		if err != nil {
			return err
		}
		r.SetBasicAuth("guest", "guest")
		if code, body, _ := x.do(r); code != http.StatusOK || body != "[]\n" {
			return errors.New(body)
		}
		return nil
	})
}

// shows opens a page that must have texts; see has.
func (x *browser) shows(path string, texts ...string) string {
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
