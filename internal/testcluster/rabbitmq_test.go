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
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
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
	seen := func(done []*brokerv1.ImportedObject, _ int) {
		for _, x := range done {
			if n := len(x.GetWarnings()); n > 0 {
				warned[x.GetKind()+" "+x.GetName()] = strings.Join(x.GetWarnings(), "; ")
			}
			switch x.GetOutcome() {
			case brokerv1.ImportOutcome_IMPORT_OUTCOME_CREATED, brokerv1.ImportOutcome_IMPORT_OUTCOME_UNCHANGED, brokerv1.ImportOutcome_IMPORT_OUTCOME_SKIPPED:
			default:
				t.Errorf("%s %q: %s %s", x.GetKind(), x.GetName(), x.GetOutcome(), x.GetReason())
			}
		}
	}
	n, err := cl.ImportDefinitions(testContext(t), text, nil, seen)
	if err != nil {
		t.Fatal(err)
	}
	const objects, leftOut = 61, 4 // the cluster's id, and policies of which nothing is left
	if n.GetCreated() != objects-leftOut || n.GetSkipped() != leftOut {
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
	if n, err = cl.ImportDefinitions(testContext(t), text, nil, seen); err != nil || n.GetCreated() != 0 || n.GetUnchanged() != objects-leftOut {
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
	_, err := cl.ImportDefinitions(testContext(t), []byte(document), &brokerv1.ImportOptions{DryRun: true}, func(done []*brokerv1.ImportedObject, _ int) {
		for _, x := range done {
			why, refused := x.GetReason(), x.GetOutcome() == brokerv1.ImportOutcome_IMPORT_OUTCOME_REFUSED
			if !refused || !strings.Contains(why, want[x.GetName()]) || len(why) > fewWords {
				t.Errorf("%s: %s %q, want %q in %d bytes", x.GetName(), x.GetOutcome(), why, want[x.GetName()], fewWords)
			}
			delete(want, x.GetName())
		}
	})
	if err != nil || len(want) > 0 {
		t.Errorf("nothing is said of %v, %v", want, err)
	}
}

// testRabbitBindings publishes a message by the way of each binding, and takes it from where
// the binding leads.
func testRabbitBindings(t *testing.T, cl *client.Client, d *rabbitDocument) {
	ctx := testContext(t)
	for i, b := range d.Bindings {
		m := client.Message{Vhost: b.VHost, Exchange: b.Source, RoutingKey: b.RoutingKey, Body: fmt.Appendf(nil, "%d", i), Mandatory: true}
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
			m, err := cl.Get(ctx, q.VHost, q.Name, true)
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
		q, err := cl.GetQueue(ctx, "shop", queue)
		if err != nil || q.GetPolicy() != want {
			t.Errorf("%s has the policy %q, %v; want %q", queue, q.GetPolicy(), err, want)
		}
	}
	// The alternate exchange is that of a policy.
	if _, err := cl.PublishOne(ctx, client.Message{Vhost: "shop", Exchange: "notify", Body: []byte("lost"), Mandatory: true}); err != nil {
		t.Error(err)
	}
	if m, err := cl.Get(ctx, "shop", "unrouted", true); err != nil || m == nil || string(m.Body) != "lost" {
		t.Errorf("%v, %v", m, err)
	}
}

func testRabbitDelays(t *testing.T, cl *client.Client) {
	ctx := testContext(t)
	m := client.Message{Vhost: "shop", Exchange: "reminders", RoutingKey: "reminder.tomorrow", Mandatory: true}
	m.Headers = client.Table{"x-delay": 86_400_000}
	if _, err := cl.PublishOne(ctx, m); err != nil {
		t.Fatal(err)
	}
	q, err := cl.GetQueue(ctx, "shop", "mail.later")
	if s := q.GetStats(); err != nil || s.GetMessagesDelayed() != 1 || s.GetMessagesReady() != 0 {
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
		if _, err := cl.DeclareQueue(ctx, client.Queue{Vhost: "shop", Name: name, Arguments: args}); err != nil {
			t.Error(err)
		}
	}
	x := client.Exchange{Vhost: "shop", Name: "later", Type: "x-delayed-message", Arguments: client.Table{"x-delayed-type": "direct"}}
	if created, err := cl.DeclareExchange(ctx, x); created || err != nil {
		t.Errorf("%v, %v", created, err)
	}
}
