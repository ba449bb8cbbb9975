package cases

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/client"
)

// load imports a document, whose names %s stands for the vhost, and returns the outcome of
// each object by path.
func (k *kase) load(document, vhost string, r client.ImportDefinitionsRequest) (map[string]client.ImportOutcome, client.ImportSummary, error) {
	k.Helper()
	outcomes := map[string]client.ImportOutcome{}
	document = strings.ReplaceAll(document, "%s", vhost)
	r.Document, r.Seen = []byte(document), func(done []client.ImportedObject, _ int) {
		for _, x := range done {
			outcomes[x.Path] = x.Outcome
		}
	}
	summary, err := k.client.ImportDefinitions(k.ctx, r)
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
	k.Cleanup(func() { _, _ = k.client.DeleteVHost(k.ctx, v) })
	_, n, err := k.load(shop, v, client.ImportDefinitionsRequest{})
	k.must(err)
	k.same("created", n.Created, uint32(7))
	q, err := k.client.GetQueue(k.ctx, client.QueueRef{VHost: v, Name: "q"})
	k.must(err)
	k.same("policies", q.Policy+" "+q.OperatorPolicy, "dead ceiling")
	_, n, err = k.load(shop, v, client.ImportDefinitionsRequest{})
	k.must(err)
	k.same("unchanged", n.Unchanged, uint32(7))

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
	_, err = k.client.PutVHost(k.ctx, client.VHost{Name: w})
	k.must(err)
	k.Cleanup(func() { _, _ = k.client.DeleteVHost(k.ctx, w) })
	_, n, err = k.load(string(text), "", client.ImportDefinitionsRequest{VHost: w})
	k.must(err)
	k.same("created in another vhost", n.Created, uint32(6))
}

// VH-9.
func TestT302(t *testing.T) {
	k := begin(t, "objects with other properties are reported and left, and the rest is imported")
	v := k.name("v")
	k.Cleanup(func() { _, _ = k.client.DeleteVHost(k.ctx, v) })
	_, _, err := k.load(shop, v, client.ImportDefinitionsRequest{})
	k.must(err)
	_, err = k.client.SetPermission(k.ctx, client.Permission{User: "guest", VHost: v, Configure: ".*"})
	k.must(err)
	_, err = k.client.DeleteQueue(k.ctx, client.DeleteQueueRequest{VHost: v, Name: "d"})
	k.must(err)
	changed := strings.NewReplacer(`"x-max-length":5`, `"x-max-length":6`, `"max-length":10`, `"max-length":11`,
		`"fanout"`, `"direct"`, `"bindings":[`, `"bindings":[{"source":"dlx","vhost":"%s","destination":"none","destination_type":"queue"},`).Replace(shop)
	for _, dry := range []bool{true, false} {
		got, n, err := k.load(changed, v, client.ImportDefinitionsRequest{DryRun: dry})
		k.must(err)
		for path, want := range map[string]client.ImportOutcome{
			"$.vhosts[0]": client.ImportUnchanged, "$.parameters[0]": client.ImportDifferent, "$.policies[0]": client.ImportUnchanged,
			"$.exchanges[0]": client.ImportDifferent, "$.queues[0]": client.ImportDifferent, "$.queues[1]": client.ImportCreated,
			"$.bindings[0]": client.ImportRefused, "$.bindings[1]": client.ImportCreated,
		} {
			k.same(fmt.Sprint(path, ", dry run ", dry), got[path], want)
		}
		k.same("different", n.Different, uint32(3))
		if _, err := k.client.GetQueue(k.ctx, client.QueueRef{VHost: v, Name: "d"}); dry != (client.ClassOf(err) == client.NotFound) {
			k.Errorf("dry run %v: queue d: %v", dry, err)
		}
	}
	q, err := k.client.GetQueue(k.ctx, client.QueueRef{VHost: v, Name: "q"})
	k.must(err)
	k.same("x-max-length", q.Arguments["x-max-length"], int64(5))
}

// VH-9.
func TestT303(t *testing.T) {
	k := begin(t, "nothing is taken of a document that is cut in half or of wrong types")
	v := k.name("v")
	for _, document := range []string{shop[:len(shop)/2], strings.Replace(shop, `"arguments":{}`, `"arguments":5`, 1), "[]", ""} {
		_, _, err := k.load(document, v, client.ImportDefinitionsRequest{})
		k.class("import", err, client.PreconditionFailed)
	}
	_, err := k.client.DeclareQueue(k.ctx, client.Queue{VHost: v, Name: "q"})
	k.class("the vhost", err, client.NotFound)
}

// VH-9.
func TestT304(t *testing.T) {
	k := begin(t, "definitions are for administrators")
	c := k.user(".*", ".*", ".*")
	_, err := c.ExportDefinitions(k.ctx, "")
	k.class("export", err, client.AccessRefused)
	_, err = c.ImportDefinitions(k.ctx, client.ImportDefinitionsRequest{Document: []byte(shop)})
	k.class("import", err, client.AccessRefused)
}
