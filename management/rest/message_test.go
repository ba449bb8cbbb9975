package rest_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// Messages are published with a confirm and got in the four ways of RabbitMQ.
func TestMessages(t *testing.T) {
	a := start(t, 3)
	const publish, get = "POST /api/exchanges/%2F/amq.default/publish", "POST /api/queues/%2F/q/get"
	a.run([]row{
		{do: "PUT /api/queues/%2F/dead", code: 201},
		{do: "PUT /api/queues/%2F/q", body: `{"arguments":{"x-dead-letter-exchange":"","x-dead-letter-routing-key":"dead","x-max-length":3,"x-overflow":"reject-publish"}}`, code: 201},
		{do: get, body: `{"ackmode":"ack_requeue_true"}`, code: 200, want: has("[]")},
		{do: publish, body: `{"routing_key":"nix","payload":"x","properties":{},"payload_encoding":"string"}`, code: 200, want: has(`{"routed":false}`)},
		{do: publish, body: `{"vhost":"/","routing_key":"q","payload":"ä1","payload_encoding":"string","properties":{
			"content_type":"t","content_encoding":"e","correlation_id":"c","reply_to":"r","expiration":"600000","message_id":"i","type":"y","user_id":"guest","app_id":"a",
			"priority":9,"delivery_mode":"2","timestamp":17,"headers":{"n":9007199254740993,"s":"x","t":{"f":1.5},"l":[true,null]},"cluster_id":""
		}}`, code: 200, want: has(`{"routed":true}`)},
		{do: publish, body: `{"routing_key":"q","payload":"/wAB","payload_encoding":"base64","properties":[]}`, code: 200},
		{do: publish, body: `{"routing_key":"q","payload":"third"}`, code: 200},
		{do: publish, body: `{"routing_key":"q","payload":"fourth"}`, code: 400, want: has(`queue \"q\" has reached its length limit`)},

		{do: get, body: `{"count":"2","ackmode":"ack_requeue_true","encoding":"auto"}`, code: 200, want: has(
			`"payload":"ä1","payload_bytes":3,"payload_encoding":"string"`, `"exchange":""`, `"routing_key":"q"`, `"redelivered":false`, `"message_count":2`, `"message_count":1`,
			`"content_type":"t"`, `"content_encoding":"e"`, `"correlation_id":"c"`, `"reply_to":"r"`, `"expiration":"600000"`, `"message_id":"i"`, `"type":"y"`, `"user_id":"guest"`, `"app_id":"a"`,
			`"priority":9`, `"delivery_mode":2`, `"timestamp":17`, `"n":9007199254740993`, `"t":{"f":1.5}`, `"l":[true,null]`,
			`"payload":"/wAB","payload_bytes":3,"payload_encoding":"base64"`, "!third",
		)},
		{do: get, body: `{"count":1,"ackmode":"reject_requeue_true","encoding":"base64","truncate":1}`, code: 200, want: has(`"redelivered":true`, `"payload":"ww==","payload_bytes":3`, `"x-acquired-count":1`, `!x-delivery-count`)},
		{do: get, body: `{"count":1,"ackmode":"reject_requeue_false"}`, code: 200, want: has(`"/wAB"`, `"x-acquired-count":1`)},
		{do: get, body: `{"count":1,"ackmode":"ack_requeue_false"}`, code: 200, want: has(`"ä1"`, `"x-acquired-count":2`, `"x-delivery-count":1`)},
		{do: get, body: `{"count":9,"ackmode":"ack_requeue_false"}`, code: 200, want: has("third", `"message_count":0`, "!/wAB")},
		{do: get, body: `{"ackmode":"ack_requeue_false"}`, code: 200, want: has("[]")},
	})
	testcluster.Poll(t, "the rejected message is dead-lettered", func() error {
		if code, _, text := a.ask("", "POST /api/queues/%2F/dead/get", `{"ackmode":"ack_requeue_true"}`); code != http.StatusOK || !strings.Contains(text, `"x-first-death-reason":"rejected"`) {
			return fmt.Errorf("%d %s", code, text)
		}
		return nil
	})
	a.wrongMessages(publish, get)
}

// While a node takes no messages, a publish is refused with the reason (PUB-10).
func TestPublishDuringAlarm(t *testing.T) {
	a := start(t, 1)
	publish := row{do: "POST /api/exchanges/%2F/amq.fanout/publish", body: `{"routing_key":"","payload":"x"}`}
	a.b.Alarms.Raise("memory is short")
	publish.code, publish.want = 503, has("memory is short")
	a.run([]row{publish})
	a.b.Alarms.End()
	publish.code, publish.want = 200, has(`{"routed":false}`)
	a.run([]row{publish})
}

// Only some requests have messages in memory at a time; another one waits, and is refused if none of them ends.
func TestMessageRequestsAreBounded(t *testing.T) {
	a := start(t, 1)
	publish := "POST /api/exchanges/%2F/amq.fanout/publish"
	ended := make(chan error)
	var bodies []*io.PipeWriter
	for i := range 4 {
		user, password := "guest", "guest"
		if i%2 == 0 { // one user has half of them
			user, password = "manager", "p"
		}
		r, w := io.Pipe()
		bodies = append(bodies, w)
		go func() { ended <- a.send(user, password, publish, r) }()
		if _, err := w.Write([]byte(`{"routing_key":`)); err != nil {
			t.Fatal(err)
		}
	}
	testcluster.Poll(t, "all four are being served", func() error {
		if code, _, text := a.ask("", publish, `{"routing_key":"","payload":"x"}`); code != http.StatusServiceUnavailable || !strings.Contains(text, "serves 4 requests with messages at a time") {
			return fmt.Errorf("%d %s", code, text)
		}
		return nil
	})
	for _, w := range bodies {
		if _, err := w.Write([]byte(`"","payload":""}`)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	a.run([]row{{do: publish, body: `{"routing_key":"","payload":"x"}`, code: 200}})
}

// send sends a request whose body comes bit by bit, and waits for success.
func (a api) send(user, password, do string, body io.Reader) error {
	method, path, _ := strings.Cut(do, " ")
	r, err := http.NewRequestWithContext(a.t.Context(), method, a.base+path, body)
	if err != nil {
		return err
	}
	r.SetBasicAuth(user, password)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return errors.Join(err, answer.Body.Close())
}

// wrongMessages: what is wrong with a message or a wish is named, and the rights count.
func (a api) wrongMessages(publish, get string) {
	a.t.Helper()
	a.run([]row{
		{do: publish, body: `{"payload":"x"}`, code: 400, want: has("routing_key: is missing")},
		{do: publish, body: `{"routing_key":"q"}`, code: 400, want: has("payload: is missing")},
		{do: publish, body: `{"routing_key":"q","payload":"x","payload_encoding":"hex"}`, code: 400, want: has("want string or base64")},
		{do: publish, body: `{"routing_key":"q","payload":"%","payload_encoding":"base64"}`, code: 400, want: has("is no base64")},
		{do: publish, body: `{"routing_key":"q","payload":"x","properties":{"priority":256,"delivery_mode":-1,"typo":1,"app_id":2,"headers":3}}`, code: 400, want: has(
			"priority = 256: want 0 to 255", "delivery_mode = -1", "properties = typo: is no property", "app_id = 2", "headers = 3",
		)},
		{do: publish, body: `{"routing_key":"q","payload":"x","properties":1}`, code: 400, want: has("properties = 1")},
		{do: publish, body: `{"routing_key":"q","payload":"x","properties":{"expiration":"x"}}`, code: 400, want: has("expiration")},
		{do: publish, body: `{"routing_key":"q","payload":"x","properties":{"user_id":"other"}}`, code: 400, want: has("user_id")},
		{do: publish, body: `{"routing_key":"` + strings.Repeat("k", 256) + `","payload":"x"}`, code: 400, want: has("256 bytes")},
		{do: publish, body: `{"routing_key":"q","payload":"` + strings.Repeat("x", message.DefaultMaxBodyBytes+1) + `"}`, code: 400, want: has("above this broker's limit of " + strconv.Itoa(message.DefaultMaxBodyBytes))},
		{do: publish, body: `{"routing_key":"q","payload":"` + strings.Repeat("x", message.DefaultMaxBodyBytes/3*4+2<<20) + `"}`, code: 400, want: has("has more than 23418200 bytes")},
		{do: "POST /api/exchanges/%2F/nix/publish", body: `{"routing_key":"q","payload":"x"}`, code: 404},
		{do: "POST /api/exchanges/nix/amq.default/publish", body: `{"routing_key":"q","payload":"x"}`, code: 404},
		{who: "limited", do: publish, body: `{"routing_key":"q","payload":"x"}`, code: 403},
		{who: "worker", do: publish, body: `{"routing_key":"q","payload":"x"}`, code: 403},
		{who: "manager", do: publish, body: `{"routing_key":"q","payload":"x"}`, code: 200},
		{who: "nobody", do: publish, code: 401},

		{do: get, body: `{}`, code: 400, want: has("ackmode: is missing")},
		{do: get, body: `{"ackmode":"x","count":0,"encoding":"hex","truncate":"y"}`, code: 400, want: has("want ack_requeue_true, reject_requeue_true", "count = 0: want 1 to 1000", "want auto or base64", "truncate")},
		{do: get, body: `{"ackmode":"ack_requeue_true","count":1001}`, code: 400, want: has("want 1 to 1000")},
		{do: "POST /api/queues/%2F/nix/get", body: `{"ackmode":"ack_requeue_true"}`, code: 404},
		{do: "POST /api/queues/nix/q/get", body: `{"ackmode":"ack_requeue_true"}`, code: 404},
		{do: "PUT /api/queues/%2F/single", body: `{"arguments":{"x-single-active-consumer":true}}`, code: 201},
		{do: "POST /api/queues/%2F/single/get", body: `{"ackmode":"ack_requeue_true"}`, code: 400, want: has("single active consumer")},
		{who: "limited", do: get, body: `{"ackmode":"ack_requeue_true"}`, code: 403},
		{who: "worker", do: get, body: `{"ackmode":"ack_requeue_true"}`, code: 403},
		{who: "nobody", do: get, code: 401},
	})
}
