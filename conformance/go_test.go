package conformance

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/internal/testcluster"
)

func dial(t *testing.T, address string) (*amqp.Connection, *amqp.Channel) {
	t.Helper()
	conn, err := amqp.Dial("amqp://guest:guest@" + address + "/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return conn, ch
}

// What is confirmed on one node is consumed on another one, in order and once, although the
// leader's node ends in between.
func TestOverNodesAndFailover(t *testing.T) {
	c := testcluster.Start(t, 3)
	_, p := dial(t, c.AMQP(0))
	q, err := p.QueueDeclare("q", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Confirm(false); err != nil {
		t.Fatal(err)
	}
	const n = 5000
	var confirms []*amqp.DeferredConfirmation
	for i := range n {
		d, err := p.PublishWithDeferredConfirm("", q.Name, false, false, amqp.Publishing{Body: fmt.Appendf(nil, "m%d", i), DeliveryMode: 2})
		if err != nil {
			t.Fatal(err)
		}
		confirms = append(confirms, d)
		if i == n/2 {
			c.Kill(2)
		}
	}
	for i, d := range confirms {
		if ok, err := d.WaitContext(t.Context()); !ok || err != nil {
			t.Fatalf("message %d: %v, %v", i, ok, err)
		}
	}
	_, x := dial(t, c.AMQP(1))
	if err := x.Qos(1000, 0, false); err != nil {
		t.Fatal(err)
	}
	ds, err := x.Consume(q.Name, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		d := <-ds
		if string(d.Body) != fmt.Sprintf("m%d", i) {
			t.Fatalf("%q came as number %d", d.Body, i)
		}
		if i%100 == 99 {
			if err := d.Ack(true); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The integration tests of amqp091-go, as they are. Those that reconnect ask the HTTP API of
// a broker at port 15672 to drop their connections, which a node of its own serves (see
// docs/amqp.md); they are left out by name, and so are the two that run only where the server
// calls itself RabbitMQ, and leave their connection open elsewhere.
func TestOwnTestsOfAMQP091(t *testing.T) {
	c := testcluster.Start(t, 1)
	cmd := exec.CommandContext(t.Context(), "go", "test", "-tags", "integration", "-count=1", "-v", "-skip", "Recover|TestRabbitMQQueue",
		"github.com/rabbitmq/amqp091-go")
	cmd.Env = append(cmd.Environ(), "AMQP_URL=amqp://guest:guest@"+c.AMQP(0)+"/")
	out, err := cmd.CombinedOutput()
	passed := len(regexp.MustCompile(`(?m)^--- PASS`).FindAll(out, -1))
	failed := regexp.MustCompile(`(?m)^--- FAIL.*(\n    .*)*`).FindAll(out, -1)
	skipped := regexp.MustCompile(`(?m)^--- SKIP.*`).FindAll(out, -1)
	t.Logf("%d passed, %d failed; skipped by the library itself: %s", passed, len(failed), bytes.Join(skipped, []byte("; ")))
	if err != nil || passed < 200 {
		t.Errorf("%v\n%s", err, bytes.Join(failed, []byte("\n")))
	}
}
