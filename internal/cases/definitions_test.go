package cases

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/client"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// load imports a document, whose names %s stands for the vhost, and returns what became of
// each object by path.
func (k *kase) load(document, vhost string, o *brokerv1.ImportOptions) (map[string]brokerv1.ImportOutcome, *brokerv1.ImportSummary, error) {
	k.Helper()
	outcomes := map[string]brokerv1.ImportOutcome{}
	document = strings.ReplaceAll(document, "%s", vhost)
	summary, err := k.client.ImportDefinitions(k.ctx, []byte(document), o, func(done []*brokerv1.ImportedObject, _ int) {
		for _, x := range done {
			outcomes[x.GetPath()] = x.GetOutcome()
		}
	})
	return outcomes, summary, err
}

const shop = `{"rabbitmq_version":"4.1.0","vhosts":[{"name":"%s","metadata":{"description":"shop","tags":[],"default_queue_type":"quorum"}}],
"parameters":[{"component":"operator_policy","name":"ceiling","vhost":"%s","value":{"pattern":".*","apply-to":"queues","definition":{"max-length":10},"priority":0}}],
"policies":[{"vhost":"%s","name":"dead","pattern":"^q","apply-to":"queues","definition":{"dead-letter-exchange":"dlx"},"priority":1}],
"exchanges":[{"name":"dlx","vhost":"%s","type":"fanout","durable":true,"auto_delete":false,"internal":false,"arguments":{}}],
"queues":[{"name":"q","vhost":"%s","type":"quorum","durable":true,"auto_delete":false,"arguments":{"x-queue-type":"quorum","x-max-length":5}},
 {"name":"d","vhost":"%s","type":"classic","durable":true,"auto_delete":false,"arguments":{}}],
"bindings":[{"source":"dlx","vhost":"%s","destination":"d","destination_type":"queue","routing_key":"","arguments":{}}]}`

// VH-9, ST-4.
func TestT301(t *testing.T) {
	k := begin(t, "definitions are imported, work, and are unchanged when they are imported again")
	v := k.name("v")
	k.Cleanup(func() { _, _ = k.client.DeleteVhost(k.ctx, v) })
	_, n, err := k.load(shop, v, nil)
	k.must(err)
	k.same("created", n.GetCreated(), uint32(7))
	q, err := k.client.GetQueue(k.ctx, v, "q")
	k.must(err)
	k.same("policies", q.GetPolicy()+" "+q.GetOperatorPolicy(), "dead ceiling")
	_, n, err = k.load(shop, v, nil)
	k.must(err)
	k.same("unchanged", n.GetUnchanged(), uint32(7))

	text, err := k.client.ExportDefinitions(k.ctx, v)
	k.must(err)
	var document struct {
		Format                                            string `json:"rabbitmq_definition_format"`
		Parameters, Policies, Queues, Exchanges, Bindings []map[string]any
	}
	k.must(json.Unmarshal(text, &document))
	k.same("format", document.Format, "single_virtual_host")
	k.same("exported", fmt.Sprint(len(document.Parameters), len(document.Policies), len(document.Queues), len(document.Exchanges), len(document.Bindings)), "1 1 2 1 1")
	w := k.name("w")
	_, err = k.client.PutVhost(k.ctx, client.Vhost{Name: w})
	k.must(err)
	k.Cleanup(func() { _, _ = k.client.DeleteVhost(k.ctx, w) })
	_, n, err = k.load(string(text), "", &brokerv1.ImportOptions{Vhost: w})
	k.must(err)
	k.same("created in another vhost", n.GetCreated(), uint32(6))
}

// VH-9.
func TestT302(t *testing.T) {
	k := begin(t, "objects with other properties are reported and left, and the rest is imported")
	v := k.name("v")
	k.Cleanup(func() { _, _ = k.client.DeleteVhost(k.ctx, v) })
	_, _, err := k.load(shop, v, nil)
	k.must(err)
	_, err = k.client.SetPermission(k.ctx, client.Permission{User: "guest", Vhost: v, Configure: ".*"})
	k.must(err)
	_, err = k.client.DeleteQueue(k.ctx, &brokerv1.DeleteQueueRequest{Vhost: v, Name: "d"})
	k.must(err)
	changed := strings.NewReplacer(`"x-max-length":5`, `"x-max-length":6`, `"max-length":10`, `"max-length":11`,
		`"fanout"`, `"direct"`, `"bindings":[`, `"bindings":[{"source":"dlx","vhost":"%s","destination":"none","destination_type":"queue"},`).Replace(shop)
	for _, dry := range []bool{true, false} {
		got, n, err := k.load(changed, v, &brokerv1.ImportOptions{DryRun: dry})
		k.must(err)
		for path, want := range map[string]string{
			"$.vhosts[0]": "UNCHANGED", "$.parameters[0]": "DIFFERENT", "$.policies[0]": "UNCHANGED", "$.exchanges[0]": "DIFFERENT",
			"$.queues[0]": "DIFFERENT", "$.queues[1]": "CREATED", "$.bindings[0]": "REFUSED", "$.bindings[1]": "CREATED",
		} {
			k.same(fmt.Sprint(path, ", dry run ", dry), got[path].String(), "IMPORT_OUTCOME_"+want)
		}
		k.same("different", n.GetDifferent(), uint32(3))
		if _, err := k.client.GetQueue(k.ctx, v, "d"); dry != (client.ClassOf(err) == client.NotFound) {
			k.Errorf("dry run %v: queue d: %v", dry, err)
		}
	}
	q, err := k.client.GetQueue(k.ctx, v, "q")
	k.must(err)
	for _, f := range q.GetArguments().GetFields() {
		if f.GetName() == "x-max-length" {
			k.same("x-max-length", f.GetValue().GetInt64(), int64(5))
		}
	}
}

// VH-9.
func TestT303(t *testing.T) {
	k := begin(t, "nothing is taken of a document that is cut in half or of wrong types")
	v := k.name("v")
	for _, document := range []string{shop[:len(shop)/2], strings.Replace(shop, `"arguments":{}`, `"arguments":5`, 1), "[]", ""} {
		_, _, err := k.load(document, v, nil)
		k.class("import", err, client.PreconditionFailed)
	}
	_, err := k.client.DeclareQueue(k.ctx, client.Queue{Vhost: v, Name: "q"})
	k.class("the vhost", err, client.NotFound)
}

// VH-9.
func TestT304(t *testing.T) {
	k := begin(t, "definitions are for administrators")
	c := k.user(".*", ".*", ".*")
	_, err := c.ExportDefinitions(k.ctx, "")
	k.class("export", err, client.AccessRefused)
	_, err = c.ImportDefinitions(k.ctx, []byte(shop), nil, func([]*brokerv1.ImportedObject, int) {})
	k.class("import", err, client.AccessRefused)
}
