package testcluster_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/imports"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// warnings gathers the warnings of a client.
type warnings struct {
	mu  sync.Mutex
	all []string
}

func (w *warnings) add(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

func (w *warnings) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.Join(w.all, "\n")
	w.all = nil
	return text
}

// C-9: unknown arguments are reported, and refused in vhosts that want it.
func TestUnknownArguments(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a node")
	}
	c := testcluster.Start(t, 1)
	awaitVersion(t, c, 1)
	var w warnings
	cl, ctx := openClient(t, c, func(cfg *client.Config) { cfg.OnWarning = w.add }), testContext(t)
	calls := declarations(ctx, cl)
	for _, call := range calls {
		if err := call.do("/", client.Table{call.arg: "5"}); err != nil {
			t.Fatalf("%s: %v", call.kind, err)
		}
		if got, want := w.take(), call.arg+" is unknown and has no effect; did you mean "+call.nearest+"?"; !strings.Contains(got, want) {
			t.Errorf("%s: warning %q, want %q", call.kind, got, want)
		}
	}
	if got := c.Broker(0).Counters().UnknownArguments; got != uint64(len(calls)) {
		t.Errorf("%d unknown arguments are counted, want %d", got, len(calls))
	}

	if _, err := cl.PutVHost(ctx, client.VHost{Name: "strict"}); err != nil {
		t.Fatal(err)
	}
	for _, call := range calls { // what is there when the vhost begins to refuse
		if err := call.do("strict", client.Table{call.arg: "5"}); err != nil {
			t.Fatalf("%s: %v", call.kind, err)
		}
	}
	if _, err := cl.PutVHost(ctx, client.VHost{Name: "strict", UnknownArguments: client.UnknownRefuse}); err != nil {
		t.Fatal(err)
	}
	for _, call := range calls {
		if err := call.do("strict", client.Table{call.arg: "5"}); err != nil {
			t.Errorf("%s that is there is declared again: %v", call.kind, err)
		}
	}
	w.take()
	for _, call := range declarationsOf(ctx, cl, "new") {
		err := call.do("strict", client.Table{call.arg: "5", "x-qwertz": "b"})
		if want := "did you mean " + call.nearest + "?"; client.ClassOf(err) != client.PreconditionFailed || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), call.arg) || !strings.Contains(err.Error(), "x-qwertz") || !strings.Contains(err.Error(), "refuses unknown arguments") {
			t.Errorf("a new %s: %v", call.kind, err)
		}
		if err := call.do("strict", call.fine); err != nil {
			t.Errorf("a new %s without: %v", call.kind, err)
		}
	}
	if got := w.take(); got != "" {
		t.Errorf("what is known is warnings: %s", got)
	}
	wantStrict(ctx, t, cl)
}

func wantStrict(ctx context.Context, t *testing.T, cl *client.Client) {
	t.Helper()
	all, err := client.Collect(cl.VHosts(ctx))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range all {
		if strict := h.UnknownArguments == client.UnknownRefuse; strict != (h.Name == "strict") {
			t.Errorf("vhost %q: %v", h.Name, h.UnknownArguments)
		}
	}
}

type declaration struct {
	kind, arg, nearest string
	fine               client.Table
	do                 func(vhost string, args client.Table) error
}

func declarations(ctx context.Context, cl *client.Client) []declaration {
	return declarationsOf(ctx, cl, "old")
}

// declarationsOf makes a queue, an exchange and a binding of a name.
func declarationsOf(ctx context.Context, cl *client.Client, name string) []declaration {
	return []declaration{
		{"queue", "x-max-lngth", "x-max-length", client.Table{"x-max-length": 5}, func(vhost string, args client.Table) error {
			_, err := cl.DeclareQueue(ctx, client.Queue{VHost: vhost, Name: name, Arguments: args})
			return err
		}},
		{"exchange", "x-alternate-exchange", "alternate-exchange", client.Table{"alternate-exchange": "a"}, func(vhost string, args client.Table) error {
			_, err := cl.DeclareExchange(ctx, client.Exchange{VHost: vhost, Name: name, Type: "headers", Arguments: args})
			return err
		}},
		{"binding", "x-mach", "x-match", client.Table{"x-match": "all-with-x", "x-kind": "a"}, func(vhost string, args client.Table) error {
			return errors.Join(
				cl.Bind(ctx, client.Binding{VHost: vhost, Source: "amq.headers", Destination: name, Arguments: args}),
				cl.Bind(ctx, client.Binding{VHost: vhost, Source: "amq.direct", Destination: name, Arguments: args})) // which reads none
		}},
	}
}

// VH-9: definitions that a new cluster imports wait for the version that brings what they say.
func TestUnknownArgumentsAtStart(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a node")
	}
	document := []byte(`{"vhosts": [{"name": "/"}, {"name": "strict", "metadata": {"unknown_arguments": "refuse"}}],
		"users": [{"name": "guest", "password": "guest", "tags": "administrator"}],
		"permissions": [{"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
		"queues": [{"name": "q", "vhost": "strict", "durable": true, "arguments": {"x-queue-type": "quorum", "x-max-lngth": 5}}]}`)
	c := testcluster.StartWith(t, 1, broker.Config{Definitions: imports.AtStart{Document: document}})
	testcluster.Poll(t, "a node that is ready", c.Broker(0).Ready)
	v := c.Cluster(0).View()
	if h, ok := v.VHost("strict"); !ok || !h.RefuseUnknown {
		t.Errorf("the vhost is %+v", h)
	}
	if _, ok := v.Queue("strict", "q"); !ok {
		t.Error("the queue is not imported")
	}
}
