package browsertest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/quorate/quorate/broker/watch"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/management/page"
)

// act is a change that a user makes by clicking. What it leads to is read from the broker's API, not from the page.
type act struct {
	name  string
	at    string       // the page it begins on
	click func(x *tab) // what the user enters and clicks there
	path  string       // where the change is sent to
	// asks are in the question that stands before the change; nil: none. typed is the name that it wants; "": none.
	asks  []string
	typed string // asShown: what the question says
	says  string // in the notice afterwards
	// effect is nil once the change is made, and an error before.
	effect func(ctx context.Context, c *client.Client) error
	// running: it is about an operation that runs. All others wait until none does: a queue takes one at a time.
	running bool
}

// asShown stands for a name that only the question shows, such as the port of a client.
const asShown = "as shown"

// group has acts that follow one another on the same cluster.
type group struct {
	furnish func(s *served, c *client.Client) // makes what the acts are about
	acts    []act
}

// groups are all acts of the page.
func groups() map[string]group {
	return map[string]group{
		"queues": queueGroup(), "messages": messageGroup(), "members": memberGroup(), "exchanges": exchangeGroup(),
		"users": userGroup(), "permissions": permissionGroup(), "vhosts": vhostGroup(),
		"nodes": nodeGroup(), "operations": operationGroup(), "connections": connectionGroup(),
	}
}

// Every change is made by clicking. One that destroys something first says what it will do, and a wrong name, or a
// question that nobody answers, changes nothing.
func TestActs(t *testing.T) {
	for name, g := range groups() {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			c := s.dial(t)
			g.furnish(s, c)
			x := browse(t, s.base)
			x.login("guest", "guest")
			for _, a := range g.acts {
				if !t.Run(a.name, func(t *testing.T) { s.perform(t, c, x.in(t), &a) }) {
					return // the next ones build on it
				}
			}
		})
	}
}

// in is the tab for a part of its test.
func (x *tab) in(t testing.TB) *tab {
	part := *x
	part.t = t
	return &part
}

// perform makes a change as a user does.
func (s *served) perform(t *testing.T, c *client.Client, x *tab, a *act) {
	ctx := t.Context()
	if !a.running {
		awaitNoOperation(t, c)
	}
	undone := func(when string) {
		t.Helper()
		if a.effect(ctx, c) == nil {
			t.Fatalf("it is so %s", when)
		}
	}
	undone("before the page is opened")
	x.open(a.at)
	x.await(`document.readyState === "complete"`)
	sent := s.asks(http.MethodPost + " " + a.path)
	a.click(x)
	if a.asks != nil {
		x.asked(a)
		undone("before the question is answered")
		if name := a.typed; name != "" {
			if name == asShown {
				name = ask[string](x, `document.querySelector("form.question strong.name").innerText`)
			}
			s.mistype(t, c, x, name)
			undone("after a wrong name")
			x.fill("#typed", name)
		}
		x.click("form.question .danger")
	}
	x.await(`document.readyState === "complete" && notice.innerText.includes(` + quote(a.says) + `)`)
	testcluster.Poll(t, a.name, func() error { return a.effect(ctx, c) })
	if s.asks(http.MethodPost+" "+a.path) == sent {
		t.Errorf("nothing was sent to %s", a.path)
	}
}

// asked waits for the question before a change, and checks what it says.
func (x *tab) asked(a *act) {
	x.t.Helper()
	x.await(`location.pathname === ` + quote(a.path) + ` && document.readyState === "complete" && document.querySelector("form.question")`)
	said := ask[string](x, `document.querySelector("main").innerText`)
	for _, text := range a.asks {
		if !strings.Contains(said, text) {
			x.t.Errorf("the question does not have %q:\n%s", text, said)
		}
	}
	if wants := ask[bool](x, `document.querySelector("#typed") !== null`); wants != (a.typed != "") {
		x.t.Errorf("the question wants a name: %t", wants)
	}
}

// mistype answers a question with a wrong name, of which no change is recorded and by which no operation begins.
func (s *served) mistype(t *testing.T, c *client.Client, x *tab, name string) {
	t.Helper()
	records, operations := s.records("guest"), countBegun(t, c)
	x.found.expect(http.StatusBadRequest)
	x.fill("#typed", name+"x")
	x.click("form.question .danger")
	x.await(`notice.innerText.startsWith("nothing was done") && typed.value === ` + quote(name+"x"))
	x.found.expect()
	if now := s.records("guest"); !slices.Equal(now, records) {
		t.Errorf("after a wrong name the audit has %q, before %q", now, records)
	}
	if now := countBegun(t, c); now != operations {
		t.Errorf("after a wrong name there are %d operations, before %d", now, operations)
	}
}

// records are the changes of a user that the audit has, the newest first.
func (s *served) records(user string) (all []string) {
	s.t.Helper()
	tail, err := s.cluster.Broker(2).Events.Tail(s.root(), watch.Choice{User: user}, watch.MaxAuditTail)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range tail.Events {
		if a := e.Audit; a != nil && !strings.HasPrefix(a.Operation, "login") && !strings.HasPrefix(a.Operation, "token") {
			all = append(all, a.Operation+" "+e.Name+" "+a.Outcome)
		}
	}
	return all
}

// listOperations lists the long jobs that the nodes remember, or those that run.
func listOperations(t *testing.T, c *client.Client, running bool) []client.Operation {
	t.Helper()
	all, err := client.Collect(c.Operations(t.Context(), client.ListOperationsRequest{Running: running}))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// countBegun counts the long jobs that the nodes remember, without those that they begin by themselves.
func countBegun(t *testing.T, c *client.Client) int {
	t.Helper()
	return len(slices.DeleteFunc(listOperations(t, c, false), func(o client.Operation) bool {
		return o.Kind == "spread-leaders"
	}))
}

// awaitNoOperation waits until no long job runs.
func awaitNoOperation(t *testing.T, c *client.Client) {
	t.Helper()
	testcluster.Poll(t, "operations end", func() error {
		if len(listOperations(t, c, true)) > 0 {
			return errors.New("one runs")
		}
		return nil
	})
}

// choose takes a choice of a list in a form.
func (x *tab) choose(selector, value string) {
	x.t.Helper()
	x.call(chromedp.SetValue(chromedp.CSS(selector), value))
}

// so is an error unless what the API shows is as wanted; err is that of asking it.
func so(err error, wanted bool, has any) error {
	if err == nil && !wanted {
		err = fmt.Errorf("it has %+v", has)
	}
	return err
}

// elsewhere are changes that tests make which look at more than the change, such as what is shown while it is entered.
func elsewhere() []string {
	return []string{
		"/ui/queues/declare",     // TestDeclare
		"/ui/exchanges/declare",  // TestExplain
		"/ui/policy/put",         // TestPolicyPreview
		"/ui/definitions/import", // TestImport
	}
}

// No change of the page is left out.
func TestActsAreAll(t *testing.T) {
	made := elsewhere()
	for _, g := range groups() {
		for _, a := range g.acts {
			made = append(made, a.path)
		}
	}
	for _, path := range page.Actions() {
		if !slices.Contains(made, path) {
			t.Errorf("no test sends the form of %s in a browser", path)
		}
	}
	for _, path := range made {
		if !slices.Contains(page.Actions(), path) {
			t.Errorf("the page has no form of %s", path)
		}
	}
}
