package testcluster_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// C-3, C-8, VH-6, VH-8, PO-1: names and patterns that are none are refused by name, and
// nothing of them is stored; a pattern that backtracks for ever matches nothing.
func TestBadNames(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a node")
	}
	c := testcluster.Start(t, 1)
	cl, ctx := openClient(t, c), testContext(t)
	before := stored(c)
	for what, put := range map[string]func(name string) error{
		"vhost": func(name string) error { _, err := cl.PutVHost(ctx, client.VHost{Name: name}); return err },
		"user":  func(name string) error { _, err := cl.PutUser(ctx, client.User{Name: name}); return err },
		"policy": func(name string) error {
			_, err := cl.PutPolicy(ctx, client.Policy{Name: name, Pattern: "^q", Definition: client.Table{"max-length": 1}})
			return err
		},
		"operator policy": func(name string) error {
			_, err := cl.PutPolicy(ctx, client.Policy{Operator: true, Name: name, Pattern: "^q", Definition: client.Table{"max-length": 1}})
			return err
		},
	} {
		for name, want := range map[string]string{
			"": "is empty", strings.Repeat("n", 256): "255", "a\x00b": `\x00`, "a\r\nb": `\r`, "a\nb": `\n`, "a\x7fb": `\x7f`,
		} {
			invalid(t, what, put(name), "name", want)
		}
	}
	for text, want := range map[string]string{
		"(": "pattern", "(?<=": "pattern", "a{2,1}": "pattern", `\`: "pattern", strings.Repeat("x", 5000): "4096",
	} {
		_, err := cl.PutPolicy(ctx, client.Policy{Name: "p", Pattern: text, Definition: client.Table{"max-length": 1}})
		invalid(t, "policy", err, "pattern", want)
		for arg, p := range map[string]client.Permission{
			"configure": {User: "guest", Configure: text}, "write": {User: "guest", Write: text}, "read": {User: "guest", Read: text},
		} {
			_, err = cl.SetPermission(ctx, p)
			invalid(t, "permission", err, arg, want)
		}
		_, err = cl.SetTopicPermission(ctx, client.TopicPermission{User: "guest", Exchange: "amq.topic", Read: text})
		invalid(t, "topic permission", err, "read", want)
	}
	if after := stored(c); after != before {
		t.Errorf("there was\n%s\nthere is\n%s", before, after)
	}
	testBacktracking(ctx, t, cl)
}

func invalid(t *testing.T, what string, err error, arg, want string) {
	t.Helper()
	var e *client.Error
	if !errors.As(err, &e) || e.Code != codes.InvalidArgument || e.Class != client.PreconditionFailed || e.Arg != arg ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want what is wrong with %s, and %q", what, err, arg, want)
	}
}

func testBacktracking(ctx context.Context, t *testing.T, cl *client.Client) {
	const forEver = "(x+x+)+y"
	xs := strings.Repeat("x", 60)
	for _, p := range []client.Policy{
		{Name: "for ever", Pattern: forEver, Priority: 2, Definition: client.Table{"max-length": 1}},
		{Name: "next", Pattern: "^x", Priority: 1, Definition: client.Table{"max-length": 2}},
	} {
		if _, err := cl.PutPolicy(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cl.DeclareQueue(ctx, client.Queue{Name: xs}); err != nil {
		t.Fatal(err)
	}
	if q, err := cl.GetQueue(ctx, client.QueueRef{Name: xs}); err != nil || q.Policy != "next" {
		t.Errorf("policy %q, %v", q.Policy, err)
	}
	if _, err := cl.SetTopicPermission(ctx, client.TopicPermission{User: "guest", Exchange: "amq.topic", Write: forEver}); err != nil {
		t.Fatal(err)
	}
	_, err := cl.PublishOne(ctx, client.Message{Exchange: "amq.topic", RoutingKey: xs})
	refusal(t, "publish", err, "amq.topic")
	if r, err := cl.PublishOne(ctx, client.Message{Exchange: "amq.topic", RoutingKey: "xxy"}); err != nil {
		t.Error(r, err)
	}
}
