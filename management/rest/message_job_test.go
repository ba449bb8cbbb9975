package rest_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/testcluster"
)

// fillRows make queues, and publish messages to "work": m1 to m4 with a header n, the last with a
// body that is no text. Dead letters of "work" go to "dead".
func fillRows() []row {
	rows := []row{
		{do: "PUT /api/queues/%2F/work", body: `{"arguments":{"x-dead-letter-exchange":"","x-dead-letter-routing-key":"dead"}}`, code: 201},
		{do: "PUT /api/queues/%2F/dead", body: `{}`, code: 201},
		{do: "PUT /api/queues/%2F/mine", body: `{}`, code: 201},
	}
	for i := 1; i <= 4; i++ {
		payload := fmt.Sprintf(`"payload":"body %d","payload_encoding":"string"`, i)
		if i == 4 {
			payload = `"payload":"/w==","payload_encoding":"base64"`
		}
		rows = append(rows, row{
			do:   "POST /api/exchanges/%2F/amq.default/publish",
			body: fmt.Sprintf(`{"routing_key":"work","properties":{"message_id":"m%d","headers":{"n":%d}},%s}`, i, i, payload), code: 200, want: has(`"routed":true`),
		})
	}
	return rows
}

// operationDone waits until all operations have ended.
func (a api) operationDone() {
	a.t.Helper()
	testcluster.Poll(a.t, "operations end", func() error {
		if code, _, text := a.ask("", "GET /v1/operations?running", ""); code != 200 || text != "[]\n" {
			return fmt.Errorf("%d %s", code, text)
		}
		return nil
	})
}

// peekRows look at messages.
func peekRows() []row {
	const work = "/v1/queues/%2F/work/messages"
	headers := url.QueryEscape(`{"n":3}`)
	return []row{
		{do: "GET " + work, code: 200, want: has(`"message_id":"m1"`, `"message_id":"m4"`, `"headers":{"n":1}`, `"payload_bytes":6`, `!"payload":`, `"next_page_token":""`, `"looked":4`)},
		{do: "GET " + work + "?limit=1", code: 200, want: has(`"message_id":"m1"`, `!"message_id":"m2"`, `!"next_page_token":""`)},
		{do: "GET " + work + "?bodies=text", code: 200, want: has(`"payload":"body 1","payload_bytes":6,"payload_encoding":"string"`, `"payload":"/w==","payload_bytes":1,"payload_encoding":"base64"`)},
		{do: "GET " + work + "?bodies=base64&limit=1", code: 200, want: has(`"payload":"Ym9keSAx"`)},
		{do: "GET " + work + "?message_id=m2&message_id=m3", code: 200, want: has(`"m2"`, `"m3"`, `!"m1"`)},
		{do: "GET " + work + "?headers=" + headers, code: 200, want: has(`"m3"`, `!"m1"`)},
		{do: "GET " + work + "?part=unsettled", code: 200, want: has(`"messages":[]`)},
		{do: "GET " + work + "?dead=true", code: 200, want: has(`"messages":[]`)},
		{do: "GET " + work + "?part=all", code: 400, want: has("part", "want ready")},
		{do: "GET " + work + "?bodies=yes", code: 400},
		{do: "GET " + work + "?limit=1001", code: 400, want: has("limit", "want 0 to 1000")},
		{do: "GET " + work + "?number=x", code: 400},
		{do: "GET " + work + "?headers=x", code: 400},
		{do: "GET " + work + "?page_token=x", code: 400},
		{do: "GET /v1/queues/%2F/nix/messages", code: 404},
		{do: "GET /v1/queues/nix/work/messages", code: 404},
		{who: "limited", do: "GET " + work, code: 403},
		{who: "stranger", do: "GET " + work, code: 403},
		{who: "manager", do: "GET " + work + "?limit=1", code: 200},
	}
}

// explainRows ask where messages would go.
func explainRows() []row {
	const routing, dead = "POST /v1/exchanges/%2F/amq.default/explain", "POST /v1/queues/%2F/work/dead-letters/explain"
	return []row{
		{do: routing, body: `{"routing_keys":["work"]}`, code: 200, want: has(`"name":"work"`, `"argument":"x-dead-letter-exchange"`, `"exchange":""`)},
		{do: routing, body: `{"routing_keys":["nix"],"headers":{"a":1}}`, code: 200, want: has(`"queues":[]`)},
		{do: routing, body: `{"routing_keys":"work"}`, code: 400, want: has("want a list of strings")},
		{do: routing, body: `{"headers":7}`, code: 400},
		{do: "POST /v1/exchanges/%2F/nix/explain", body: `{}`, code: 404},
		{who: "stranger", do: routing, body: `{}`, code: 403},
		{do: dead, body: `{}`, code: 200, want: has(`"name":"dead"`, `"strategy":"at-most-once"`)},
		{do: dead, body: `{"number":99999,"part":"ready"}`, code: 404},
		{do: dead, body: `{"reason":"boredom"}`, code: 400, want: has("want rejected")},
		{do: dead, body: `{"part":"x"}`, code: 400},
		{do: dead, body: `{"number":-1}`, code: 400},
		{do: "POST /v1/queues/%2F/nix/dead-letters/explain", code: 404},
		{who: "limited", do: dead, body: `{}`, code: 403},
	}
}

// Messages are looked at, explained, moved, brought back and deleted; what is misspelt chooses
// nothing.
func TestMessagesInQueues(t *testing.T) {
	a, _ := one(t)
	a.run(fillRows())
	a.run(peekRows())
	a.run(explainRows())
	const work, dead, mine = "/v1/queues/%2F/work/messages", "/v1/queues/%2F/dead/messages", "/v1/queues/%2F/mine/messages"
	a.run([]row{
		{do: "POST " + work + "/delete", body: `{"filters":{}}`, code: 400, want: has("filters", "is not known")},
		{do: "POST " + work + "/delete", body: `{"filter":{"message_id":"m1"}}`, code: 400, want: has("message_id", "is not known")},
		{do: "POST " + work + "/delete", body: `{"filter":{"numbers":["1"]}}`, code: 400},
		{do: "POST " + work + "/delete", body: `{"limit":-1}`, code: 400},
		{do: "POST " + work + "/delete", body: `{"rate":5000000000}`, code: 400},
		{do: "POST " + work + "/move", body: `{}`, code: 400, want: has("name either")},
		{do: "POST " + work + "/move", body: `{"to_queue":"a","to_exchange":"b"}`, code: 400, want: has("name either")},
		{do: "POST " + work + "/move", body: `{"to_queue":"a","routing_key":"b"}`, code: 400, want: has("applies to to_exchange only")},
		{do: "POST " + work + "/move", body: `{"to_queue":"nix"}`, code: 404},
		{do: "POST /v1/queues/%2F/nix/messages/delete", body: `{}`, code: 404},
		{who: "limited", do: "POST " + work + "/delete", body: `{}`, code: 403},
		{do: "POST " + work + "/delete", body: `{"dry_run":true,"filter":{"message_ids":["m1"]}}`, code: 200, want: has(`"plan_total":1`, `!"operation"`)},
		{do: "POST " + work + "/delete", body: `{"filter":{"message_ids":["m1"]}}`, code: 202, want: has(`"operation":{`, `"kind":"delete-messages"`)},
	})
	a.operationDone()
	a.run([]row{{do: "POST " + work + "/move", body: `{"to_queue":"mine","filter":{"headers":{"n":2}}}`, code: 202}})
	a.operationDone()
	a.run([]row{
		{do: "GET " + work, code: 200, want: has(`!"m1"`, `!"m2"`, `"m3"`)},
		{do: "GET " + mine, code: 200, want: has(`"m2"`, `!"m3"`)},
		{do: "POST /api/queues/%2F/work/get", body: `{"count":1,"ackmode":"reject_requeue_false","encoding":"auto"}`, code: 200, want: has(`"message_id":"m3"`)},
	})
	testcluster.Poll(t, "the dead letter is in its queue", func() error {
		if _, _, text := a.ask("", "GET "+dead+"?death_queue=work&death_reason=rejected", ""); !strings.Contains(text, `"m3"`) || !strings.Contains(text, `"x-first-death-queue":"work"`) {
			return errors.New(text)
		}
		return nil
	})
	a.run([]row{
		{do: "GET " + work, code: 200, want: has(`!"m3"`)},
		{do: "GET /api/queues/%2F/work", code: 200, want: has(`"dead_letters":{"abandoned":0,`, `"discarded":[{"count":1,"reason":"rejected","strategy":"at-most-once"}]`, `"lost":{},"retries":{},"waiting":{}`)},
		{do: "POST " + dead + "/redrive", body: `{"to_exchange":"perhaps"}`, code: 400},
		{do: "POST " + dead + "/redrive", body: `{"filter":{"death_queue":"other"},"dry_run":true}`, code: 200, want: has(`"plan_total":0`)},
		{do: "POST " + dead + "/redrive", body: `{"filter":{"death_queue":"work"}}`, code: 202, want: has(`"kind":"redrive-messages"`)},
	})
	a.operationDone()
	a.run([]row{{do: "GET " + work, code: 200, want: has(`"m3"`)}, {do: "GET " + dead, code: 200, want: has(`"messages":[]`)}})
	a.run([]row{
		{do: "GET /v1/queues/%2F/work/operations", code: 200, want: has(`"kind":"delete-messages"`, `"kind":"move-messages"`, "!redrive-messages")},
		{do: "GET /v1/queues/%2F/dead/operations", code: 200, want: has(`"kind":"redrive-messages"`, "!delete-messages")},
		{do: "GET /v1/queues/%2F/mine/operations", code: 200, want: has("[]")},
		{do: "GET /v1/queues/%2F/nix/operations", code: 404},
		{who: "manager", do: "GET /v1/queues/%2F/work/operations", code: 403},
	})
	a.run([]row{{do: "GET /v1/audit", code: 200, want: has(`"messages.delete"`, `"messages.move"`, `"messages.redrive"`)}})
}
