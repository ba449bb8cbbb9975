package rest_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/management/login"
	"github.com/quorate/quorate/management/rest"
	"github.com/quorate/quorate/management/stats"
)

// row is a request and its expected outcome. Rows follow one another on the same cluster.
type row struct {
	who  string // a user of addUsers; "": guest, an administrator
	do   string // the method and the path
	body string
	code int
	want []string // what the answer contains; with ! before it, what it does not
}

// has is a list of texts.
func has(texts ...string) []string { return texts }

// api is the handler of one node, served over loopback.
type api struct {
	t       *testing.T
	cluster *testcluster.Cluster
	base    string
	b       *broker.Broker
}

// start starts a cluster with the users of addUsers.
func start(t *testing.T, nodes int) api {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	t.Parallel()
	c := testcluster.Start(t, nodes)
	b := c.Broker(nodes - 1)
	collector := stats.New(stats.Config{Broker: b})
	t.Cleanup(collector.Close)
	s := httptest.NewServer(rest.New(rest.Config{Broker: b, Guard: login.New(b), Stats: collector, Node: c.Name(nodes - 1), Logger: slog.New(slog.DiscardHandler)}))
	t.Cleanup(s.Close)
	addUsers(t, b)
	return api{t: t, cluster: c, base: s.URL, b: b}
}

// addUsers adds users with the password p: manager and policymaker have the tags and all rights in /, limited has the
// tag management and rights for names that begin with "mine", worker has all rights and no tag. The last one has the
// tag management and no rights.
func addUsers(t *testing.T, b *broker.Broker) {
	t.Helper()
	ctx := identity.WithIdentity(t.Context(), identity.Itself())
	for _, u := range []struct{ name, tag, rights string }{
		{"manager", identity.TagManagement, ".*"},
		{"policymaker", identity.TagPolicymaker, ".*"},
		{"limited", identity.TagManagement, "^mine"},
		{"worker", "", ".*"},
		{"stranger", identity.TagManagement, ""},
	} {
		put := administration.PutUser{Name: u.name, Password: "p"}
		if u.tag != "" {
			put.Tags = []string{u.tag}
		}
		if _, err := b.Administration.PutUser(ctx, put); err != nil {
			t.Fatal(err)
		}
		if u.rights == "" {
			continue
		}
		p := administration.Permission{User: u.name, VHost: "/", Configure: u.rights, Write: u.rights, Read: u.rights}
		if _, err := b.Administration.SetPermission(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
}

// ask sends a request and returns the answer.
func (a api) ask(who, do, body string) (code int, header http.Header, text string) {
	a.t.Helper()
	method, path, _ := strings.Cut(do, " ")
	r, err := http.NewRequestWithContext(a.t.Context(), method, a.base+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	switch who {
	case "":
		r.SetBasicAuth("guest", "guest")
	case "nobody":
	default:
		r.SetBasicAuth(who, "p")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	out, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		a.t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(out)
}

// run sends the requests of rows.
func (a api) run(rows []row) {
	a.t.Helper()
	for _, x := range rows {
		faults, busy := a.judge(x)
		for deadline := time.Now().Add(patience); len(faults) > 0 && busy && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			faults, busy = a.judge(x)
		}
		for _, fault := range faults {
			a.t.Error(fault)
		}
	}
}

// judge sends the request of a row once, and returns what is not as wanted. busy: the same request may be answered well later,
// because it only asks, and a node that does much else has not answered another one in time.
func (a api) judge(x row) (faults []string, busy bool) {
	a.t.Helper()
	code, header, text := a.ask(x.who, x.do, x.body)
	asks := strings.HasPrefix(x.do, http.MethodGet+" ")
	busy = asks && (code == http.StatusServiceUnavailable || header.Get("Quorate-Silent") != "")
	if code != x.code {
		return []string{fmt.Sprintf("%s %s %.200s: %d %s, want %d", x.who, x.do, x.body, code, text, x.code)}, busy
	}
	for _, want := range x.want {
		unwanted, not := strings.CutPrefix(want, "!")
		if strings.Contains(text, unwanted) == not {
			faults = append(faults, fmt.Sprintf("%s %s %.200s: %s, want %s", x.who, x.do, x.body, text, want))
		}
	}
	return faults, busy
}

// Each path of the topology: what it does, what is wrong with a request, what is not there, and who may not.
func TestTopology(t *testing.T) {
	a := start(t, 1)
	for _, group := range []struct {
		name string
		rows []row
	}{
		{"vhosts", vhostRows()},
		{"limits", limitRows()},
		{"exchanges", exchangeRows()},
		{"queues", queueRows()},
		{"bindings", bindingRows()},
		{"policies", policyRows()},
		{"parameters", parameterRows()},
		{"rights", rightsRows()},
	} {
		t.Run(group.name, func(t *testing.T) { api{t: t, base: a.base, b: a.b}.run(group.rows) })
	}
}
