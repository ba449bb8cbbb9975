package definitions

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/quorate/quorate/catalog"
)

// VH-13: an export of RabbitMQ 3.11 with mirrored and delayed objects and lazy queues comes over whole; what
// has no counterpart is reported object by object.
func TestFromRabbitMQ3(t *testing.T) {
	text, err := os.ReadFile("testdata/rabbitmq-3.11.json")
	if err != nil {
		t.Fatal(err)
	}
	c := cluster(t)
	d := parse(t, text, "")
	steps := Plan(d, c.View(), nil)
	golden(t, "rabbitmq-3.11.plan", planText(steps))
	carryOut(t, c, steps)
	for _, s := range Plan(d, c.View(), nil) {
		if s.Action != Keep && s.Action != Skip {
			t.Errorf("imported again, %s %q: %v %s", s.Kind, s.Name, s.Action, s.Reason)
		}
	}
	whole := export(t, c.View(), "")
	for _, s := range Plan(parse(t, whole, ""), c.View(), nil) {
		if s.Action != Keep {
			t.Errorf("after its export, %s %q: %v %s", s.Kind, s.Name, s.Action, s.Reason)
		}
	}
	if !strings.Contains(string(whole), `"type": "x-delayed-message"`) {
		t.Errorf("the export has no delayed exchange:\n%s", whole)
	}
}

// one plans a document of one object besides the vhost "/".
func one(t *testing.T, list, object string) Step {
	t.Helper()
	steps := Plan(parse(t, fmt.Appendf(nil, `{%q:[%s]}`, list, object), ""), cluster(t).View(), nil)
	return steps[len(steps)-1]
}

// VH-13: classic queues that name no type.
func TestUntypedQueues(t *testing.T) {
	for _, row := range []struct {
		members  string
		kind     catalog.QueueType
		args     string
		warnings []string // parts of them
	}{
		{`"arguments":{"x-max-priority":10}`, catalog.QueueClassic, `x-max-priority=10`, []string{"becomes a classic queue"}},
		{`"arguments":{"x-queue-mode":"lazy"}`, catalog.QueueClassic, ``, []string{"becomes a classic queue", `x-queue-mode = "lazy" is left out`}},
		{`"arguments":{"x-queue-version":2,"x-max-length":5}`, catalog.QueueClassic, `x-max-length=5`, []string{"becomes a classic queue", "x-queue-version = 2 is left out"}},
		{`"arguments":{"x-queue-master-locator":"min-masters"}`, catalog.QueueQuorum, ``, []string{"becomes a quorum queue", "x-queue-leader-locator"}},
		{`"arguments":{}`, catalog.QueueQuorum, ``, []string{"quorum queue"}},
		{`"durable":false,"arguments":{"x-max-priority":255}`, catalog.QueueClassic, `x-max-priority=255`, []string{"32 levels"}},
		{`"auto_delete":true`, catalog.QueueClassic, ``, nil},
		{`"type":"classic","arguments":{"x-queue-mode":"lazy"}`, catalog.QueueClassic, ``, []string{"x-queue-mode"}},
		{`"arguments":{"x-queue-type":"classic","x-max-priority":5}`, catalog.QueueClassic, `x-max-priority=5`, nil},
		{`"arguments":{"x-queue-type":"quorum","x-message-deduplication":true}`, catalog.QueueQuorum, `x-message-deduplication=true`, []string{"x-message-deduplication is kept without effect"}},
	} {
		s := one(t, "queues", `{"name":"q","vhost":"/",`+row.members+`}`)
		q, _ := s.Command.(*catalog.DeclareQueue)
		args := strings.Trim(fmt.Sprint(q.Arguments.Without("x-queue-type")), "{}")
		if s.Action != Create || q.Type != row.kind || args != row.args {
			t.Errorf("%s: %v %s, %s with %s; want %s with %s", row.members, s.Action, s.Reason, q.Type, args, row.kind, row.args)
		}
		wantWarnings(t, row.members, s.Warnings, row.warnings)
	}
}

func wantWarnings(t *testing.T, what string, have, want []string) {
	t.Helper()
	if len(have) != len(want) {
		t.Errorf("%s: warnings %q, want %q", what, have, want)
		return
	}
	for i := range want {
		if !strings.Contains(have[i], want[i]) {
			t.Errorf("%s: warning %q lacks %q", what, have[i], want[i])
		}
	}
}

// VH-13: policy keys of RabbitMQ without counterpart go one by one, and only they.
func TestForeignPolicyKeys(t *testing.T) {
	const none = "none of its keys"
	for _, row := range []struct {
		definition string
		left       string // of the definition; "": the policy is left out
		warnings   []string
	}{
		{`"ha-mode":"all","max-length":5`, "max-length=5", []string{`ha-mode = "all" is left out`}},
		{
			`"ha-mode":"exactly","ha-params":2,"ha-sync-mode":"automatic","ha-sync-batch-size":5,"ha-promote-on-shutdown":"always","ha-promote-on-failure":"always","expires":5`,
			"expires=5",
			[]string{"ha-mode", "ha-params", "ha-sync-mode", "ha-sync-batch-size", "ha-promote-on-shutdown", "ha-promote-on-failure"},
		},
		{`"queue-mode":"lazy","queue-version":2,"queue-master-locator":"random","overflow":"drop-head"`, "overflow=drop-head", []string{"queue-mode", "queue-version", "queue-leader-locator"}},
		{`"ha-mode":"all"`, "", []string{"ha-mode"}},
		{`"federation-upstream":"a","federation-upstream-set":"all","federation-upstream-pattern":"b"`, "", []string{"federation", "federation", "federation"}},
		{`"shards-per-node":2,"routing-key":"1"`, "", []string{"shards-per-node", "routing-key"}},
		{`"max-age":"1D","stream-max-segment-size-bytes":5`, "", []string{"streams", "streams"}},
		{`"max-length":5`, "max-length=5", nil},
		{`"max-lngth":5`, "max-lngth=5", nil}, // for the check of policies
	} {
		for list, form := range map[string]string{
			"policies":   `{"vhost":"/","name":"p","pattern":"^q","definition":{%s}}`,
			"parameters": `{"vhost":"/","component":"operator_policy","name":"p","value":{"pattern":"^q","definition":{%s}}}`,
		} {
			s := one(t, list, fmt.Sprintf(form, row.definition))
			c, _ := s.Command.(*catalog.PutPolicy)
			if row.left == "" {
				if s.Action != Skip || !strings.Contains(s.Reason, none) {
					t.Errorf("%s: %v %s", row.definition, s.Action, s.Reason)
				}
			} else if left := strings.Trim(strings.ReplaceAll(fmt.Sprint(c.Definition), `"`, ""), "{}"); s.Action != Create || left != row.left {
				t.Errorf("%s: %v %s, left is %s, want %s", row.definition, s.Action, s.Reason, left, row.left)
			}
			wantWarnings(t, row.definition, s.Warnings, row.warnings)
		}
	}
	s := one(t, "policies", `{"vhost":"/","name":"p","pattern":"","apply-to":"streams","definition":{"max-length-bytes":5}}`)
	if s.Action != Skip || !strings.Contains(s.Reason, "applies to nothing") || len(s.Warnings) != 1 {
		t.Errorf("of streams: %v %s %q", s.Action, s.Reason, s.Warnings)
	}
}

// VH-13: exchanges of plugins.
func TestPluginExchanges(t *testing.T) {
	for _, row := range []struct {
		kind, args string
		want       Action
		stored     catalog.ExchangeType
		text       string // of the reason or the warning
	}{
		{"x-delayed-message", `{"x-delayed-type":"topic"}`, Create, "topic", "topic exchange that heeds x-delay"},
		{"x-delayed-message", `{}`, Refuse, "", "x-delayed-type"},
		{"x-random", `{}`, Create, "x-random", ""},
		{"x-recent-history", `{"x-recent-history-length":5}`, Refuse, "", "x-max-length"},
		{"x-jms-topic", `{}`, Refuse, "", "headers exchange"},
	} {
		s := one(t, "exchanges", `{"name":"x","vhost":"/","type":"`+row.kind+`","arguments":`+row.args+`}`)
		c, _ := s.Command.(*catalog.DeclareExchange)
		if s.Action != row.want || s.Action == Create && c.Type != row.stored || !strings.Contains(s.Reason+strings.Join(s.Warnings, ""), row.text) {
			t.Errorf("%s: %v %s, %+v, %q", row.kind, s.Action, s.Reason, c, s.Warnings)
		}
	}
}

// VH-13: what is kept without effect.
func TestKeptWithoutEffect(t *testing.T) {
	for component, want := range map[string]string{"federation-upstream": "no federation", "shovel": "no shovels", "mqtt": "without effect"} {
		s := one(t, "parameters", `{"vhost":"/","component":"`+component+`","name":"n","value":{}}`)
		if s.Action != Create {
			t.Errorf("%s: %v %s", component, s.Action, s.Reason)
		}
		wantWarnings(t, component, s.Warnings, []string{want})
	}
	s := one(t, "vhosts", `{"name":"v","default_queue_type":"stream","tracing":true}`)
	c, _ := s.Command.(*catalog.PutVHost)
	if s.Action != Create || c.DefaultQueueType != catalog.QueueQuorum {
		t.Errorf("%v %s, %+v", s.Action, s.Reason, c)
	}
	wantWarnings(t, "vhost", s.Warnings, []string{"default_queue_type", "tracing"})
}
