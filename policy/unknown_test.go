package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
)

func named(names ...string) (t message.Table) {
	for _, n := range names {
		t = append(t, message.Field{Name: n, Value: message.Int64(5)})
	}
	return t
}

// C-9: what begins with x- and means nothing, with what may have been meant.
func TestUnknown(t *testing.T) {
	t.Parallel()
	mode := func(m string) message.Table {
		return append(named("x-a", "b"), message.Field{Name: "x-match", Value: message.String(m)})
	}
	for _, c := range []struct {
		got  []policy.Unknown
		want string
	}{
		{policy.UnknownOfQueue(named("x-max-lngth")), "[{x-max-lngth x-max-length}]"},
		{policy.UnknownOfQueue(named("x-foo", "foo", "x-message-tl")), "[{x-foo } {x-message-tl x-message-ttl}]"},
		{policy.UnknownOfQueue(named("x-dead-letter-cycle", "x-max-length-total", "x-on-delete")), "[]"},
		// RabbitMQ's that mean nothing here, of now and of before.
		{policy.UnknownOfQueue(named("x-queue-mode", "x-queue-version", "x-max-age", "x-queue-master-locator", "x-ha-policy", "x-stream-max-segment-size-bytes")), "[]"},
		{policy.UnknownOfExchange(named("alternate-exchange", "hash-header", "x-delayed-type")), "[]"},
		{policy.UnknownOfExchange(named("x-delayed-typ", "x-alternate-exchange")), "[{x-delayed-typ x-delayed-type} {x-alternate-exchange alternate-exchange}]"},
		{policy.UnknownOfConsumer(named("x-priority", "x-consumer-timeout", "x-cancel-on-ha-failover", "x-stream-offset")), "[]"},
		{policy.UnknownOfConsumer(named("x-prioritty")), "[{x-prioritty x-priority}]"},
		{policy.UnknownOfBinding(named("x-mach", "kind")), "[{x-mach x-match}]"},
		{policy.UnknownOfBinding(mode("all")), "[{x-a }]"},
		{policy.UnknownOfBinding(mode("any-with-x")), "[]"},
		{policy.UnknownOfBinding(mode("all-with-x")), "[]"},
	} {
		var list []string
		for _, u := range c.got {
			if asks := strings.HasPrefix(u.Advice, "did you mean "+u.Nearest); asks != (u.Nearest != "") {
				t.Errorf("%s: advice %q", u.Name, u.Advice)
			}
			list = append(list, "{"+u.Name+" "+u.Nearest+"}")
		}
		if got := fmt.Sprint(list); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprint("x-", i)
	}
	if got := policy.UnknownOfQueue(named(many...)); len(got) != policy.MaxUnknown {
		t.Errorf("%d are told, want %d", len(got), policy.MaxUnknown)
	}
	if got := policy.UnknownOfBinding(mode("any"))[0].Advice; !strings.Contains(got, "any-with-x") {
		t.Errorf("the advice of a header that is not compared is %q", got)
	}
	if got := policy.UnknownOfQueue(named("x-max-length" + strings.Repeat("h", 1<<20))); len(got) != 1 || got[0].Nearest != "" {
		t.Errorf("%d are told of a name of 1 MiB", len(got))
	}
}

// D-2: a declare with priorities is refused with how to have them.
func TestRemedyOfPriorities(t *testing.T) {
	t.Parallel()
	_, err := argument.Resolve(named("x-max-priority"), false)
	if err == nil || !strings.Contains(err.Error(), "32 priorities without it") || !strings.Contains(err.Error(), "x-queue-type classic") {
		t.Errorf("%v", err)
	}
	if _, err := argument.Resolve(named("x-queue-mode"), false); err == nil || strings.Contains(err.Error(), "priorities") {
		t.Errorf("%v", err)
	}
}
