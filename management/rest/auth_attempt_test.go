package rest_test

import (
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Any node shows what each one has counted of attempts to log in, over all protocols, and has it count anew.
func TestAuthAttempts(t *testing.T) {
	a := start(t, 3)
	dial := func(password string) error {
		c, err := amqp091.Dial("amqp://guest:" + password + "@" + a.cluster.AMQP(0) + "/")
		if err == nil {
			t.Cleanup(func() { _ = c.Close() })
		}
		return err
	}
	for range 2 {
		if err := dial("wrong"); err == nil {
			t.Fatal("a wrong password is accepted")
		}
	}
	if err := dial("guest"); err != nil {
		t.Fatal(err)
	}
	const sum = `"auth_attempts":3,"auth_attempts_failed":2,"auth_attempts_succeeded":1,"protocol":"amqp091"`
	at, here := "/api/auth/attempts/"+a.cluster.Name(0), "/api/auth/attempts/"+a.cluster.Name(2)
	a.run([]row{
		{do: "GET " + at, code: 200, want: has("[{"+sum+"}]", "!http", "!guest")},
		{do: "GET " + at + "/source", code: 200, want: has("[{" + sum + `,"remote_address":"127.0.0.1","username":"guest"}]`)},
		{who: "manager", do: "GET " + at, code: 403},
		{who: "nobody", do: "GET " + at, code: 401},
		{do: "GET " + here + "/source?name=guest&columns=protocol,username", code: 200, want: has(`[{"protocol":"http","username":"guest"}]`)},
		{do: "GET " + here + "?columns=protocol", code: 200, want: has(`[{"protocol":"http"}]`)},
		{who: "manager", do: "DELETE " + at, code: 403},
		{do: "DELETE " + at, code: 204},
		{do: "GET " + at, code: 200, want: has("[]")},
		{do: "GET " + at + "/source", code: 200, want: has("[]")},
		{do: "GET /v1/audit?operation=logins.reset", code: 200, want: has(`"name":"` + a.cluster.Name(0) + `"`)},
	})
	a.cluster.Kill(0)
	a.run([]row{{do: "GET " + at, code: 503, want: has(a.cluster.Name(0))}})
}
