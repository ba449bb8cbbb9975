package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/quorate/quorate/client"
)

func TestExitCodes(t *testing.T) {
	t.Setenv(addressesEnv, "127.0.0.1:1")
	for want, lines := range map[int][][]string{
		0: {{"help"}, {"queue", "declare", "--help"}},
		1: {{"queue", "list", "--tls-ca", "no-such-file"}},
		4: {{"queue", "list", "--timeout", "100ms"}, {"operations", "watch", "a.1.1", "--timeout", "100ms"}},
		2: {
			{"queueing"},
			{"queue", "list", "--timeout", "0s"},
			{"queues", "grow"},
			{"queues", "shrink", "n", "--wait", "--no-wait"},
			{"nodes", "drain", "node-1", "--remove"},
			{"nodes", "drain", "node-1", "--exclude", "node-2"},
			{"nodes", "replace", "node-1"},
			{"nodes", "replace", "node-1", "--confirm", "node-2"},
			{"nodes", "forget", "node-1"},
			{"nodes", "forget", "node-1", "--confirm", "node-2"},
			{"operations", "watch"},
			{"queue", "show"},
			{"queue", "list", "--no-such-flag"},
			{"queue", "list", "--output", "xml"},
			{"consume", "q", "--do", "nothing"},
			{"publish"},
			{"queue", "declare", "q", "-x", "novalue"},
			{"-a", "nowhere", "cluster", "status"},
			{"queue", "list", "--tls-cert", "x"},
		},
	} {
		for _, args := range lines {
			if got := run(t.Context(), args, io.Discard, io.Discard); got != want {
				t.Errorf("quoratectl %q exits with %d, want %d", args, got, want)
			}
		}
	}
}

func TestParseArguments(t *testing.T) {
	got, err := parseArguments([]string{"n=5", "b=true", "s=text", `q="5"`, "empty="})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"n": int64(5), "b": true, "s": "text", "q": "5", "empty": ""} {
		if fmt.Sprintf("%T %v", got[name], got[name]) != fmt.Sprintf("%T %v", want, want) {
			t.Errorf("%s is %T %v, want %T %v", name, got[name], got[name], want, want)
		}
	}
}

func TestUnrouted(t *testing.T) {
	returned := &client.NotConfirmedError{Result: client.Result{Outcome: client.Returned}}
	other := errors.New("other")
	for _, row := range []struct {
		exchange string
		err      error
		want     string
	}{
		{"", returned, `queue "k" does not exist: declare it first`},
		{"events", returned, `exchange "events" routes key "k" to no queue: bind one first`},
		{"", other, "other"},
	} {
		if got := unrouted(client.Message{Exchange: row.exchange, RoutingKey: "k"}, row.err); !errors.Is(got, row.err) || !strings.HasPrefix(got.Error(), row.want) {
			t.Errorf("%q: %v, want %q", row.exchange, got, row.want)
		}
	}
}
