package testcluster_test

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// VH-8, PUB-1: a redrive through the exchanges that messages came from is refused what a publish there would be: keys that
// a topic permission does not allow, and internal exchanges. The messages stay.
func TestRedriveNeedsRights(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a node")
	}
	c := testcluster.Start(t, 1)
	root, ctx := openClient(t, c), testContext(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	declare := func(q client.Queue) {
		t.Helper()
		_, err := root.DeclareQueue(ctx, q)
		must(err)
	}
	exchange := func(internal bool) {
		t.Helper()
		_, err := root.DeclareExchange(ctx, client.Exchange{Name: "x", Type: "topic", Internal: internal})
		must(err)
		must(root.Bind(ctx, client.Binding{Source: "x", Destination: "q", RoutingKey: "#"}))
	}
	_, err := root.PutUser(ctx, client.User{Name: "operator", Password: "secret"})
	must(err)
	_, err = root.SetPermission(ctx, client.Permission{User: "operator", Write: "^x$", Read: "^dead$"})
	must(err)
	allow := func(keys string) {
		t.Helper()
		_, err := root.SetTopicPermission(ctx, client.TopicPermission{User: "operator", Exchange: "x", Write: keys})
		must(err)
	}
	declare(client.Queue{Name: "dead"})
	declare(client.Queue{Name: "q", Arguments: client.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}})
	exchange(false)
	_, err = root.PublishOne(ctx, client.Message{Exchange: "x", RoutingKey: "salaries.paid", Body: []byte("m")})
	must(err)
	taken, err := root.Get(ctx, client.GetRequest{Queue: "q"})
	must(err)
	must(root.Settle(ctx, client.SettleRequest{Token: taken.Token, Decision: client.Decision{Kind: client.Discard, Failed: true}}))
	holds := func(queue string, want uint64) {
		t.Helper()
		testcluster.Poll(t, fmt.Sprintf("%s has %d messages", queue, want), func() error {
			q, err := root.GetQueue(ctx, client.QueueRef{Name: queue})
			if s := q.Figures(); err == nil && (s.MessagesReady != want || s.MessagesDLX != 0) {
				err = fmt.Errorf("%d, and %d on their way", s.MessagesReady, s.MessagesDLX)
			}
			return err
		})
	}
	holds("dead", 1)

	operator := openClient(t, c, as("operator", "secret"))
	redrive := func(dryRun bool) (client.StartedOperation, error) {
		return operator.RedriveMessages(ctx, client.RedriveMessagesRequest{
			Job: client.MessageJob{Queue: "dead", DryRun: dryRun}, ToExchange: true,
		})
	}
	run := func(want client.OperationState) {
		t.Helper()
		started, err := redrive(false)
		must(err)
		end, err := root.WatchOperation(ctx, started.Operation.ID, func(client.Operation) {})
		must(err)
		if end.State != want {
			t.Fatalf("the redrive ended as %s, want %s: %s", end.State, want, end.Error)
		}
	}
	allow("^orders")
	_, err = redrive(true)
	refusal(t, "a dry run by a key of others", err, `no write access to this key of it`)
	run(client.OperationFailed)
	holds("dead", 1)
	holds("q", 0)

	must(root.DeleteExchange(ctx, client.DeleteExchangeRequest{Name: "x"}))
	exchange(true)
	allow(".*")
	_, err = redrive(true)
	refusal(t, "a dry run through an internal exchange", err, "is internal")
	run(client.OperationFailed)
	holds("dead", 1)
	holds("q", 0)

	must(root.DeleteExchange(ctx, client.DeleteExchangeRequest{Name: "x"}))
	exchange(false)
	allow("^salaries")
	run(client.OperationDone)
	holds("dead", 0)
	holds("q", 1)
}
