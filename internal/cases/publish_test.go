package cases

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/client"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// PUB-3.
func TestT052(t *testing.T) {
	k := begin(t, "no route: confirmed, or returned if mandatory")
	r, err := k.try(k.name("missing"), "m")
	k.must(err)
	k.routed(r, 0)
	_, err = k.try(k.name("missing"), "m", func(m *client.Message) { m.Mandatory = true })
	var not *client.NotConfirmedError
	if !errors.As(err, &not) || not.Result.Outcome != client.Returned {
		k.Errorf("mandatory: %v, want returned", err)
	}
}

// PUB-1.
func TestT053(t *testing.T) {
	k := begin(t, "a missing exchange is an error")
	_, err := k.try("key", "m", via(k.name("missing")))
	e := k.refusal("publish", err, client.NotFound)
	k.named(e, k.name("missing"))
}

// MSG-4.
func TestT054(t *testing.T) {
	k := begin(t, "expiration is decimal milliseconds and nothing else")
	q := k.queue("q", nil)
	publish := func(text string) brokerv1.PublishResult_Result {
		r, err := k.broker.PublishOne(k.ctx, &brokerv1.PublishOneRequest{Message: &brokerv1.Message{
			RoutingKey: q, Properties: &brokerv1.Properties{Expiration: &text},
		}})
		if err != nil { // the fault of a single publish may be the call's
			return brokerv1.PublishResult_RESULT_INVALID
		}
		return r.GetResult().GetResult()
	}
	for _, text := range []string{"", " 5", "5 ", "-1", "1.5", "5ms", "0x10", "315360000001", "abc"} {
		k.same(fmt.Sprintf("%q", text), publish(text), brokerv1.PublishResult_RESULT_INVALID)
	}
	k.same("stored", k.stats(q).Published, 0)
	for _, text := range []string{"0", "10", "+5", "007", "315360000000"} {
		k.same(fmt.Sprintf("%q", text), publish(text), brokerv1.PublishResult_RESULT_CONFIRMED)
	}
}

// MSG-8.
func TestT055(t *testing.T) {
	k := begin(t, "CC and BCC are lists; what is no string in them is skipped")
	q, q2 := k.queue("q", nil), k.queue("q2", nil)
	_, err := k.try(q, "m", headers(client.Table{"CC": "str"}))
	k.class("CC", err, client.PreconditionFailed)
	_, err = k.try(q, "m", headers(client.Table{"BCC": 5}))
	k.class("BCC", err, client.PreconditionFailed)
	r, err := k.try(q, "m", headers(client.Table{"CC": []any{1, q2}}))
	k.must(err)
	k.routed(r, 2)
	k.same("ready", k.stats(q2).MessagesReady, 1)
}

// MSG-8, MSG-9.
func TestT056(t *testing.T) {
	k := begin(t, "CC and BCC route; only CC is seen")
	q, cc, bcc := k.queue("q", nil), k.queue("cc", nil), k.queue("bcc", nil)
	_, err := k.try(q, "m", headers(client.Table{"CC": []any{cc}, "BCC": []any{bcc}}))
	k.must(err)
	for _, x := range []string{q, cc, bcc} {
		m := k.get(x, true)
		k.same("routing key in "+x, m.RoutingKey, q)
		k.same("CC in "+x, m.Headers["CC"], []any{cc})
		if _, has := m.Headers["BCC"]; has {
			k.Errorf("BCC is seen in %s", x)
		}
	}
}

// PUB-4.
func TestT058(t *testing.T) {
	k := begin(t, "one full queue rejects the message, the others keep it")
	x := k.exchange("x", "fanout", client.Exchange{})
	q1, q2 := k.queue("q1", nil), k.queue("q2", args{"x-max-length": 0, "x-overflow": "reject-publish"})
	k.bind(x, q1, "")
	k.bind(x, q2, "")
	for range 3 {
		_, err := k.try("", "m", via(x))
		k.rejected(err, q2)
	}
	k.same("stored in the other", k.stats(q1).MessagesReady, 3)
}

// MSG-2.
func TestT060(t *testing.T) {
	k := begin(t, "a body above the limit is refused, and nothing else suffers")
	q := k.queue("q", nil)
	_, err := k.try(q, strings.Repeat("x", 17<<20))
	k.class("17 MiB, by the client", err, client.PreconditionFailed)
	r, err := k.broker.PublishOne(k.ctx, &brokerv1.PublishOneRequest{
		Message: &brokerv1.Message{RoutingKey: q, Body: make([]byte, 16<<20+1)},
	})
	if err == nil && r.GetResult().GetError().GetClass() != string(client.PreconditionFailed) ||
		err != nil && status.Code(err) != codes.InvalidArgument && status.Code(err) != codes.FailedPrecondition {
		k.Errorf("16 MiB and a byte, by the broker: %v, %v", r, err)
	}
	k.publish(q, "small")
	k.ready(q, 1)
}
