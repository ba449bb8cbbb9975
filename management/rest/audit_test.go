package rest_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/watch"
)

// What changes something is recorded with its user, object and outcome, and what reads is not (AU-1).
func TestAudit(t *testing.T) {
	a := start(t, 1)
	type changed struct {
		row
		record string // operation, kind, vhost, name and outcome
	}
	steps := []changed{
		{row{do: "GET /api/exchanges", code: 200}, ""},
		{row{do: "PUT /api/vhosts/v", code: 201}, "vhost.put vhost v v done"},
		{row{do: "POST /api/vhosts/v/deletion/protection", code: 204}, "vhost.put vhost v v done"},
		{row{do: "DELETE /api/vhosts/v", code: 400}, "vhost.delete vhost v v refused"},
		{row{do: "PUT /api/vhost-limits/v/max-queues", body: `{"value":3}`, code: 204}, "vhost.limits vhost v v done"},
		{row{do: "PUT /api/user-limits/worker/max-channels", body: `{"value":3}`, code: 204}, "user.limits user  worker done"},
		{row{do: "PUT /api/exchanges/%2F/x", code: 201}, "exchange.declare exchange / x done"},
		{row{do: "PUT /api/queues/%2F/q", code: 201}, "queue.declare queue / q done"},
		{row{who: "limited", do: "PUT /api/queues/%2F/q2", code: 403}, "queue.declare queue / q2 refused"},
		{row{do: "POST /api/bindings/%2F/e/x/q/q", body: `{"routing_key":"k"}`, code: 201}, "binding.create binding / x → q done"},
		{row{do: "DELETE /api/bindings/%2F/e/x/q/q/k", code: 204}, "binding.delete binding / x → q done"},
		{row{do: "POST /api/exchanges/%2F/amq.default/publish", body: `{"routing_key":"q","payload":""}`, code: 200}, ""},
		{row{do: "POST /api/queues/%2F/q/get", body: `{"ackmode":"ack_requeue_true"}`, code: 200}, ""},
		{row{do: "DELETE /api/queues/%2F/q/contents", code: 204}, "queue.purge queue / q done"},
		{row{do: "DELETE /api/queues/%2F/q", code: 204}, "queue.delete queue / q done"},
		{row{do: "DELETE /api/exchanges/%2F/x", code: 204}, "exchange.delete exchange / x done"},
		{row{do: "PUT /api/policies/%2F/p", body: `{"pattern":"","definition":{"max-length":1}}`, code: 201}, "policy.put policy / p done"},
		{row{do: "DELETE /api/operator-policies/%2F/o", code: 404}, "policy.delete operator policy / o refused"},
		{row{do: "PUT /api/global-parameters/g", body: `{"value":1}`, code: 201}, "parameter.put global parameter  g done"},
		{row{do: "DELETE /api/global-parameters/g", code: 204}, "parameter.delete global parameter  g done"},
	}
	var want []string
	for _, x := range steps {
		a.run([]row{x.row})
		if x.record != "" {
			want = append(want, x.record)
		}
	}
	tail, err := a.b.Events.Tail(identity.WithIdentity(t.Context(), identity.Itself()), watch.Choice{}, watch.MaxAuditTail)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range tail.Events {
		if r := e.Audit; r.Protocol == "http" && r.Operation != "login" {
			got = append(got, strings.Join([]string{r.Operation, r.Object, e.VHost, e.Name, r.Outcome}, " "))
		}
	}
	slices.Sort(got) // those of one millisecond have no order
	slices.Sort(want)
	for i := range max(len(got), len(want)) {
		var x, y string
		if i < len(got) {
			x = got[i]
		}
		if i < len(want) {
			y = want[i]
		}
		if x != y {
			t.Errorf("record %d: %q, want %q", i, x, y)
		}
	}
}

// Arguments without effect are accepted with a warning (C-9), in the header of the answer.
func TestWarnings(t *testing.T) {
	a := start(t, 1)
	for _, do := range []string{"PUT /api/queues/%2F/q", "PUT /api/exchanges/%2F/x"} {
		code, header, text := a.ask("", do, `{"arguments":{"x-unknown":1}}`)
		if warnings := header.Get("Quorate-Warnings"); code != http.StatusCreated || !strings.Contains(warnings, "x-unknown") {
			t.Error(fmt.Sprint(do, code, text, warnings))
		}
	}
}
