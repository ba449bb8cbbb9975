package testcluster_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// rabbitBinding is a binding of RabbitMQ's document.
type rabbitBinding struct {
	Source          string         `json:"source"`
	VHost           string         `json:"vhost"`
	Destination     string         `json:"destination"`
	DestinationType string         `json:"destination_type"`
	RoutingKey      string         `json:"routing_key"`
	Arguments       map[string]any `json:"arguments"`
}

// rabbitDocument is as much of the document as the test looks at.
type rabbitDocument struct {
	Queues []struct {
		VHost string `json:"vhost"`
		Name  string `json:"name"`
	} `json:"queues"`
	Exchanges []struct {
		Name string `json:"name"`
		Type string `json:"type"`
	} `json:"exchanges"`
	Bindings []rabbitBinding `json:"bindings"`
}

func (d *rabbitDocument) typeOf(exchange string) string {
	for _, x := range d.Exchanges {
		if x.Name == exchange {
			return x.Type
		}
	}
	return ""
}

// VH-13: an export of RabbitMQ 3.11 is imported whole, into real nodes, and everything in it
// works.
func TestRabbitMQDocument(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	text, err := os.ReadFile("../../definitions/testdata/rabbitmq-3.11.json")
	if err != nil {
		t.Fatal(err)
	}
	var d rabbitDocument
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	c := testcluster.Start(t, 3)
	importRabbitMQ(t, openClient(t, c), text)
	t.Run("refusals", func(t *testing.T) { testRabbitRefusals(t, openClient(t, c)) })
	admin := openClient(t, c, func(cfg *client.Config) { cfg.Username, cfg.Password = "admin", "secret" })
	t.Run("bindings", func(t *testing.T) { testRabbitBindings(t, admin, &d) })
	t.Run("policies", func(t *testing.T) { testRabbitPolicies(t, admin) })
	t.Run("delays", func(t *testing.T) { testRabbitDelays(t, admin) })
	t.Run("redeclared by programs", func(t *testing.T) { testRabbitRedeclares(t, admin) })
}

func importRabbitMQ(t *testing.T, cl *client.Client, text []byte) {
	t.Helper()
	warned := map[string]string{}
	seen := func(done []client.ImportedObject, _ int) {
		for _, x := range done {
			if n := len(x.Warnings); n > 0 {
				warned[x.Kind+" "+x.Name] = strings.Join(x.Warnings, "; ")
			}
			switch x.Outcome {
			case client.ImportCreated, client.ImportUnchanged, client.ImportSkipped:
			default:
				t.Errorf("%s %q: %s %s", x.Kind, x.Name, x.Outcome, x.Reason)
			}
		}
	}
	n, err := cl.ImportDefinitions(testContext(t), client.ImportDefinitionsRequest{Document: text, Seen: seen})
	if err != nil {
		t.Fatal(err)
	}
	const objects, leftOut = 61, 4 // the cluster's id, and policies of which nothing is left
	if n.Created != objects-leftOut || n.Skipped != leftOut {
		t.Errorf("%v", n)
	}
	for what, part := range map[string]string{
		"policy ha-all": "ha-mode", "policy ha-two": "ha-params", "queue orders.urgent": "classic queue",
		"queue jobs.mail": "x-queue-mode", "exchange later": "x-delay", "parameter shovel to-archive": "no shovels",
	} {
		if !strings.Contains(warned[what], part) {
			t.Errorf("%s: warnings %q, want %q", what, warned[what], part)
		}
	}
	if n, err = cl.ImportDefinitions(testContext(t), client.ImportDefinitionsRequest{Document: text, Seen: seen}); err != nil || n.Created != 0 || n.Unchanged != objects-leftOut {
		t.Errorf("a second time: %v, %v", n, err)
	}
}

// What cannot come over is refused by its name, in a few words, with what to do instead.
func testRabbitRefusals(t *testing.T, cl *client.Client) {
	const fewWords = 250
	document := `{"policies":[{"vhost":"/","name":"typo","pattern":"^q","definition":{"max-lngth":5,"ha-mode":"all"}},
			{"vhost":"/","name":"odd","pattern":"^q","definition":{"something-else":5}}],
		"queues":[{"vhost":"/","name":"log","durable":true,"auto_delete":false,"arguments":{"x-queue-type":"stream","x-max-age":"7D"}}],
		"exchanges":[{"vhost":"/","name":"history","type":"x-recent-history","arguments":{}},{"vhost":"/","name":"jms","type":"x-jms-topic","arguments":{}}]}`
	want := map[string]string{
		"typo": `max-lngth = 5: is no policy key; did you mean "max-length"?`, "odd": "something-else = 5: is no policy key",
		"log": "declare a quorum queue", "history": "x-max-length", "jms": "headers exchange",
	}
	seen := func(done []client.ImportedObject, _ int) {
		for _, x := range done {
			why, refused := x.Reason, x.Outcome == client.ImportRefused
			if !refused || !strings.Contains(why, want[x.Name]) || len(why) > fewWords {
				t.Errorf("%s: %s %q, want %q in %d bytes", x.Name, x.Outcome, why, want[x.Name], fewWords)
			}
			delete(want, x.Name)
		}
	}
	_, err := cl.ImportDefinitions(testContext(t), client.ImportDefinitionsRequest{Document: []byte(document), DryRun: true, Seen: seen})
	if err != nil || len(want) > 0 {
		t.Errorf("nothing is said of %v, %v", want, err)
	}
}

// testRabbitBindings publishes a message by the way of each binding, and takes it from where
// the binding leads.
func testRabbitBindings(t *testing.T, cl *client.Client, d *rabbitDocument) {
	ctx := testContext(t)
	for i, b := range d.Bindings {
		m := client.Message{VHost: b.VHost, Exchange: b.Source, RoutingKey: b.RoutingKey, Body: fmt.Appendf(nil, "%d", i), Mandatory: true}
		tries := []client.Table{nil}
		switch d.typeOf(b.Source) {
		case "topic", "x-delayed-message":
			m.RoutingKey = strings.NewReplacer("#", "two.words", "*", "word").Replace(b.RoutingKey)
		case "headers":
			tries[0] = maps.Clone(b.Arguments)
			tries[0]["version"] = 2 // which JSON has as a float
		case "x-consistent-hash":
			tries = nil
			for customer := range 64 {
				tries = append(tries, client.Table{"customer": customer})
			}
		}
		for _, headers := range tries {
			m.Headers = headers
			if _, err := cl.PublishOne(ctx, m); err != nil {
				t.Fatalf("%+v: %v", b, err)
			}
		}
	}
	came := map[string][]string{}
	for _, q := range d.Queues {
		for {
			m, err := cl.Get(ctx, client.GetRequest{VHost: q.VHost, Queue: q.Name, AutoAck: true})
			if err != nil {
				t.Fatal(err)
			}
			if m == nil {
				break
			}
			came[q.Name] = append(came[q.Name], string(m.Body))
		}
	}
	for i, b := range d.Bindings {
		// That of an exchange leads on to a queue of the same name.
		if !slices.Contains(came[b.Destination], fmt.Sprint(i)) {
			t.Errorf("%+v leads nowhere: %q has %v", b, b.Destination, came[b.Destination])
		}
	}
}

// What is left of RabbitMQ's policies is in force.
func testRabbitPolicies(t *testing.T, cl *client.Client) {
	ctx := testContext(t)
	for queue, want := range map[string]string{"jobs.mail": "ha-two", "orders.new": "dead", "audit": "", "shard.0": ""} {
		q, err := cl.GetQueue(ctx, client.QueueRef{VHost: "shop", Name: queue})
		if err != nil || q.Policy != want {
			t.Errorf("%s has the policy %q, %v; want %q", queue, q.Policy, err, want)
		}
	}
	// The alternate exchange is that of a policy.
	if _, err := cl.PublishOne(ctx, client.Message{VHost: "shop", Exchange: "notify", Body: []byte("lost"), Mandatory: true}); err != nil {
		t.Error(err)
	}
	if m, err := cl.Get(ctx, client.GetRequest{VHost: "shop", Queue: "unrouted", AutoAck: true}); err != nil || m == nil || string(m.Body) != "lost" {
		t.Errorf("%v, %v", m, err)
	}
}

func testRabbitDelays(t *testing.T, cl *client.Client) {
	ctx := testContext(t)
	m := client.Message{VHost: "shop", Exchange: "reminders", RoutingKey: "reminder.tomorrow", Mandatory: true}
	m.Headers = client.Table{"x-delay": 86_400_000}
	if _, err := cl.PublishOne(ctx, m); err != nil {
		t.Fatal(err)
	}
	q, err := cl.GetQueue(ctx, client.QueueRef{VHost: "shop", Name: "mail.later"})
	if s := q.Stats; err != nil || s.MessagesDelayed != 1 || s.MessagesReady != 0 {
		t.Errorf("%v, %v", s, err)
	}
}

// Programs declare their queues and exchanges as they did with RabbitMQ.
func testRabbitRedeclares(t *testing.T, cl *client.Client) {
	ctx := testContext(t)
	for name, args := range map[string]client.Table{
		"orders.new": nil, "orders.urgent": {"x-max-priority": 10}, "orders.lazy": {"x-queue-mode": "lazy", "x-message-ttl": 3600000},
		"orders.all": {"x-queue-version": 2}, "jobs.report": {"x-queue-master-locator": "min-masters"},
		"audit": {"x-queue-type": "classic", "x-queue-mode": "lazy"},
	} {
		if _, err := cl.DeclareQueue(ctx, client.Queue{VHost: "shop", Name: name, Arguments: args}); err != nil {
			t.Error(err)
		}
	}
	x := client.Exchange{VHost: "shop", Name: "later", Type: "x-delayed-message", Arguments: client.Table{"x-delayed-type": "direct"}}
	if created, err := cl.DeclareExchange(ctx, x); created || err != nil {
		t.Errorf("%v, %v", created, err)
	}
}
