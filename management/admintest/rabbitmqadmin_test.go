package admintest

import (
	"fmt"
	"strings"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/internal/testcluster"
)

// The script's help needs no broker and shows that it runs at all.
func TestHelp(t *testing.T) {
	a := start(t)
	a.follow("guest", []step{
		do("help", "More Help"), do("help subcommands", "operator_policy", "export <file>"), do("help config", "host_normal"),
		do("--version", "rabbitmqadmin 3."), do("--bash-completion", "complete -F _rabbitmqadmin"),
		refused("jump", "not understood"),
	})
}

// Objects of every kind are declared, listed in every format, and deleted.
func TestObjects(t *testing.T) {
	a := start(t)
	for _, group := range []struct {
		name  string
		steps []step
	}{
		{"vhosts", vhostSteps()},
		{"exchanges and queues", topologySteps()},
		{"policies", policySteps()},
		{"parameters", parameterSteps()},
		{"names", nameSteps()},
		{"formats", formatSteps()},
	} {
		t.Run(group.name, func(t *testing.T) {
			b := a
			b.t = t
			b.follow("guest", group.steps)
		})
	}
}

func vhostSteps() []step {
	return []step{
		do("declare vhost name=v/1", "vhost declared"),
		do("declare vhost name=v/1 tracing=true", "vhost declared"),
		do("list vhosts", "v/1"),
		do("-f kvp list vhosts name default_queue_type", `name="v/1" default_queue_type="quorum"`),
		do("declare vhost_limit vhost=v/1 name=max-queues value=2", "vhost_limit declared"),
		do("list vhost_limits", "v/1", `{"max-queues": 2}`),
		refused("declare vhost_limit vhost=v/1 name=nix value=2", "is not known; want one of max-connections"),
		do("delete vhost_limit vhost=v/1 name=max-queues", "vhost_limit deleted"),
		do("list vhost_limits", "No items"),
		do("delete vhost name=v/1", "vhost deleted"),
		refused("delete vhost name=v/1", "Not found: /api/vhosts/v%2F1"),
	}
}

func topologySteps() []step {
	return []step{
		do("declare exchange name=x type=topic", "exchange declared"),
		do("list exchanges", "x", "topic", "amq.fanout"),
		do("-V / list exchanges name durable", "x", "True"),
		refused("declare exchange name=x type=direct", "type"),
		do("declare queue name=q", "queue declared"),
		do(`declare queue name=p queue_type=classic arguments={"x-max-priority":3}`, "queue declared"),
		do("declare binding source=x destination=q routing_key=a.#", "binding declared"),
		do("declare binding source=x destination=amq.fanout destination_type=exchange", "binding declared"),
		do("list bindings", "a.#", "amq.fanout"),
		do("list queues", "q", "p"), do("-V / list queues name type state messages", "quorum", "classic", "running"),
		do("-S messages -f kvp list queues name messages_ready", `name="q" messages_ready="0"`),
		do("show overview", "object_totals.queues", "test"), do("list nodes", "node-0", "disc"),
		do("-V / list bindings source destination_type properties_key", "a.%23", "exchange"),
		do("delete binding source=x destination_type=queue destination=q properties_key=a.%23", "binding deleted"),
		do("delete binding source=x destination_type=exchange destination=amq.fanout", "binding deleted"),
		refused("delete binding source=x destination_type=queue destination=q properties_key=a.%23", "Not found"),
		do("list bindings", "!a.#"),
		do("purge queue name=q", "queue purged"),
		refused("purge queue name=nix", "Not found"),
		do("delete queue name=q", "queue deleted"), do("delete queue name=p", "queue deleted"),
		refused("delete queue name=q", "Not found"),
		do("delete exchange name=x", "exchange deleted"),
		do("list consumers", "No items"),
	}
}

func policySteps() []step {
	return []step{
		do(`declare policy name=p pattern=^q definition={"max-length":5} priority=2 apply-to=queues`, "policy declared"),
		do("list policies", `{"max-length": 5}`, "^q", "queues"),
		refused(`declare policy name=p pattern=( definition={"max-length":5}`, "pattern"),
		do("delete policy name=p", "policy deleted"),
		do("list policies", "No items"),
		do(`declare operator_policy name=o pattern=.* definition={"max-length":5}`, "operator_policy declared"),
		do("list operator_policies", `{"max-length": 5}`),
		do("delete operator_policy name=o", "operator_policy deleted"),
		refused("delete operator_policy name=o", "Not found"),
	}
}

func parameterSteps() []step {
	return []step{
		do("list parameters", "No items"),
		refused(`declare parameter component=shovel name=s value={"src-uri":"amqp://"}`, "nothing here reads parameters of a component"),
		refused("delete parameter component=shovel name=s", "Not found"),
	}
}

// nameSteps have names that have to be escaped in paths, at the limit of their length.
func nameSteps() []step {
	long := strings.Repeat("n", 255)
	return []step{
		do("declare queue name=a/ä€%2F?#&+", "queue declared"),
		{args: []string{"declare", "queue", `name="with spaces"`}, want: []string{"queue declared"}},
		do("declare queue name="+long, "queue declared"),
		refused("declare queue name=n"+long, "256 bytes"),
		do("list bindings destination", "a/ä€%2F?#&+", `"with spaces"`, long),
		do("delete queue name=a/ä€%2F?#&+", "queue deleted"),
		{args: []string{"delete", "queue", `name="with spaces"`}, want: []string{"queue deleted"}},
		do("delete queue name="+long, "queue deleted"),
	}
}

// formatSteps show lists in every format that the script has.
func formatSteps() []step {
	out := []step{
		do("-q -f bash list exchanges", "amq.topic"), do("-f raw_json list exchanges", `"name":"amq.topic"`),
		do("-f pretty_json list exchanges", `"name": "amq.topic"`), do("-f pretty_json list vhosts", `"metadata": {`),
		do("-S name -R -f tsv list exchanges name", "name\namq.topic\n", "amq.fanout\namq.direct\n"),
		do("-d 3 list vhosts", "metadata.merge_policies"),
	}
	for _, format := range []string{"tsv", "long", "table", "kvp"} {
		out = append(out, do("-f "+format+" list exchanges", "amq.topic"))
	}
	return out
}

// Messages are published and got, also from and into files.
func TestMessages(t *testing.T) {
	a := start(t)
	a.follow("guest", []step{
		do("declare queue name=q", "queue declared"),
		do("publish routing_key=nix payload=x", "Message published but NOT routed"),
		do(`publish routing_key=q payload=hello properties={"delivery_mode":2,"headers":{"a":"b"}}`, "Message published\n"),
		do("get queue=q", "hello", "False"),
		do("get queue=q ackmode=reject_requeue_true", "hello", "True"),
		do("-d 3 get queue=q ackmode=ack_requeue_true", "properties.headers.a"),
		do("get queue=q ackmode=ack_requeue_false payload_file=out", "q"),
		do("get queue=q", "No items"),
		{args: strings.Fields("publish routing_key=q exchange=amq.default"), input: "from ä\npipe", want: []string{"Message published"}},
		do("publish routing_key=q payload=/wA= payload_encoding=base64", "Message published"),
		do("-f raw_json get queue=q count=5 encoding=base64 ackmode=reject_requeue_false", `"payload":"ZnJvbSDDpApwaXBl"`, `"payload":"/wA="`),
		refused("get queue=nix", "Not found"),
		refused("get queue=q ackmode=x", "want ack_requeue_true"),
		refused("publish routing_key=q payload=x exchange=nix", "Not found"),
		do("delete queue name=q", "queue deleted"),
	})
	if got := a.file("out"); got != "hello" {
		t.Errorf("%q", got)
	}
}

// Connections are listed and closed, and what a user without rights asks for is refused.
func TestConnections(t *testing.T) {
	a := start(t)
	c, err := amqp091.DialConfig("amqp://guest:guest@"+a.cluster.AMQP(0)+"/", amqp091.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // it is closed by then
	closed := c.NotifyClose(make(chan *amqp091.Error, 1))
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	a.follow("guest", []step{do("declare queue name=q", "queue declared")})
	if _, err := ch.Consume("q", "worker", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprint(c.LocalAddr(), " -> ", c.RemoteAddr())
	a.follow("guest", []step{
		do("list connections", name, "guest"), do("-V / list consumers", "worker"), do("list nodes name mem_used fd_used", "node-0"),
		do("list channels", name+" (1)", "guest"), do("-f kvp list channels number consumer_count confirm", `number="1" consumer_count="1" confirm="False"`),
		{args: []string{"close", "connection", "name=" + name}, want: []string{"connection closed"}},
	})
	if err := <-closed; err == nil || err.Code != amqp091.ConnectionForced {
		t.Errorf("%v", err)
	}
	testcluster.Poll(t, "the connection is gone", func() error {
		if out, complaint, err := a.run("guest", []string{"list", "connections"}, ""); err != nil || !strings.Contains(out, "No items") {
			return fmt.Errorf("%w: %s%s", err, out, complaint)
		}
		return nil
	})
	a.follow("guest", []step{{args: []string{"close", "connection", "name=" + name}, fails: "Not found"}})
	a.follow("nobody", []step{refused("list exchanges", "Access refused: /api/exchanges")})
}
