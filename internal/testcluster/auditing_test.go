package testcluster_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/watch"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/management"
)

// logged is what nodes write into their logs.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// auditing is a cluster whose audit is looked at.
type auditing struct {
	t         *testing.T
	c         *testcluster.Cluster
	log       *logged
	hostToken string
	root      *client.Client
	web       string // the management listener of the first node
}

func startAuditing(t *testing.T, nodes int) *auditing {
	t.Helper()
	a := &auditing{t: t, log: &logged{}, hostToken: identity.NewHostToken()}
	a.c = testcluster.StartWith(t, nodes, broker.Config{
		Logger: slog.New(slog.NewTextHandler(a.log, nil)), HostToken: a.hostToken,
	})
	a.root = openClient(t, a.c, func(c *client.Config) { c.Name = "the root's program" })
	s := httptest.NewUnstartedServer(management.New(management.Config{Broker: a.c.Broker(0), Node: a.c.Name(0)}))
	s.Config.ConnContext = management.ConnContext
	s.Start()
	t.Cleanup(s.Close)
	a.web = s.URL
	return a
}

func (a *auditing) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// refused checks that an error is a refusal.
func (a *auditing) refused(err error) {
	a.t.Helper()
	var e *client.Error
	if !errors.As(err, &e) || e.Code != codes.PermissionDenied && e.Code != codes.FailedPrecondition && e.Code != codes.InvalidArgument {
		a.t.Errorf("%v; want a refusal", err)
	}
}

// tail returns all records, and their text.
func (a *auditing) tail() ([]client.Event, string) {
	a.t.Helper()
	out, err := a.root.TailAudit(testContext(a.t), client.TailAuditRequest{Limit: watch.MaxAuditTail})
	a.must(err)
	if len(out.Silent) > 0 {
		a.t.Errorf("%q did not answer", out.Silent)
	}
	var text strings.Builder
	for _, e := range out.Events {
		line, err := json.Marshal(e)
		a.must(err)
		text.Write(append(line, '\n'))
	}
	return out.Events, text.String()
}

// audited is a record that there must be once.
type audited struct {
	operation, vhost, name, user, protocol, outcome string
	says                                            string // part of its changes or its cause
}

func (x *audited) is(e client.Event) bool {
	r := e.Audit
	return r.Operation == x.operation && e.VHost == x.vhost && e.Name == x.name && r.User == x.user &&
		r.Protocol == x.protocol && r.Outcome == x.outcome && strings.Contains(changesOf(e)+" "+e.Cause, x.says)
}

func changesOf(e client.Event) string {
	var b strings.Builder
	for _, c := range e.Audit.Changes {
		b.WriteString(c.Field + ":" + c.Before + ">" + c.After + " ")
	}
	return b.String()
}

// once checks that there is each of the records exactly once.
func (a *auditing) once(want ...audited) {
	a.t.Helper()
	all, text := a.tail()
	for i := range want {
		found := 0
		for _, e := range all {
			if want[i].is(e) {
				found++
			}
		}
		if found != 1 {
			a.t.Errorf("%d records %+v, want 1", found, want[i])
		}
	}
	if a.t.Failed() {
		a.t.Logf("records:\n%s", text)
	}
}

// dial connects over AMQP.
func (a *auditing) dial(node int, user, password, vhost string) (*amqp091.Connection, error) {
	return amqp091.DialConfig("amqp://"+a.c.AMQP(node), amqp091.Config{
		Vhost: vhost, SASL: []amqp091.Authentication{&amqp091.PlainAuth{Username: user, Password: password}},
		Properties: amqp091.Table{"connection_name": "orders"},
	})
}
