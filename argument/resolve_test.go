package argument_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

func table(pairs ...any) message.Table {
	var t message.Table
	for i := 0; i < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		switch v := pairs[i+1].(type) {
		case int:
			t.Set(name, message.Int64(int64(v)))
		case string:
			t.Set(name, message.String(v))
		case message.Value:
			t.Set(name, v)
		}
	}
	return t
}

// What several arguments come to together; each by itself is tried in package policy, from the declare
// to what is in force.
func TestResolveTogether(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args   message.Table
		change func(*argument.Settings)
	}{
		"nothing":        {nil, func(*argument.Settings) {}},
		"unknown name":   {table("x-foo", "bar", "y", message.Null()), func(*argument.Settings) {}},
		"retry disabled": {table("x-delayed-retry-type", "disabled", "x-delayed-retry-min", 1), func(*argument.Settings) {}},
		"retry without maximum": {table("x-delayed-retry-type", "returned", "x-delayed-retry-min", 5), func(s *argument.Settings) {
			s.Retry = quorumq.Retry{Type: quorumq.RetryReturned, MinMs: 5, MaxMs: 5}
		}},
		"retry list": {table("x-delayed-retry-type", "failed", "x-delayed-retry-backoff", "1s, 5ms,1m30s"), func(s *argument.Settings) {
			s.Retry = steps(5, 90_000, 1000, 5, 90_000)
		}},
		"retry list bounded": {table("x-delayed-retry-type", "failed", "x-delayed-retry-backoff", "1s,5s", "x-delayed-retry-max", 100), func(s *argument.Settings) {
			s.Retry = steps(100, 100, 1000, 5000)
		}},
		"D-8: constant": {table("x-delayed-retry-type", "failed", "x-delayed-retry-min", 300), func(s *argument.Settings) {
			s.Retry = quorumq.Retry{Type: quorumq.RetryFailed, MinMs: 300, MaxMs: 300}
			s.Warnings = []string{`x-delayed-retry-type "failed" without x-delayed-retry-max: every wait is x-delayed-retry-min; set a maximum for waits to grow`}
		}},
		"classic as quorum": {table("x-queue-type", "classic", "x-delivery-limit", 20, "x-return-position", "returns"), func(s *argument.Settings) {
			s.Classic = true
		}},
	} {
		t.Run(name, func(t *testing.T) {
			want := argument.Default(false)
			c.change(&want)
			got, err := argument.Resolve(c.args, false)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func steps(low, high int64, waits ...int64) quorumq.Retry {
	r := quorumq.Retry{Type: quorumq.RetryFailed, Backoff: quorumq.BackoffSteps, MinMs: low, MaxMs: high}
	r.Steps = uint8(copy(r.StepsMs[:], waits))
	return r
}

// D-2: what is wrong of arguments together, all at once.
func TestResolveRefusesTogether(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args message.Table
		want []string
	}{
		{table("x-dead-letter-routing-key", "k"), []string{"x-dead-letter-routing-key"}},
		{table("x-delayed-retry-type", "all"), []string{"x-delayed-retry-type"}},
		{table("x-delayed-retry-min", 5, "x-delayed-retry-max", 4), []string{"x-delayed-retry-max"}},
		{table("x-queue-type", "stream", "x-max-age", "1D"), []string{"x-queue-type"}},
		{table("x-max-length", -1, "x-overflow", "nope", "x-expires", 5), []string{"x-max-length", "x-overflow"}},
		{table("x-stream-offset", 1, "x-queue-mode", "lazy", "x-stream-size", 1), []string{"x-queue-mode", "x-stream-offset", "x-stream-size"}},
	} {
		t.Run(c.args.String(), func(t *testing.T) {
			t.Parallel()
			_, err := argument.Resolve(c.args, false)
			joined, ok := err.(interface{ Unwrap() []error })
			if !ok {
				t.Fatalf("error %v", err)
			}
			var got []string
			for _, e := range joined.Unwrap() {
				fault, ok := errors.AsType[*argument.Error](e)
				if !ok || fault.Value == "" || fault.Reason == "" || !strings.Contains(e.Error(), fault.Arg) {
					t.Fatalf("imprecise: %v", e)
				}
				got = append(got, fault.Arg)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("faults %q, want %q: %v", got, c.want, err)
			}
		})
	}
}

// Q-13, VH-13, C-9: names that the table does not have.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"x-foo", "", "max-length", "x-stream", "x-ha-policy"} {
		if argument.Find(name) != nil || argument.ComparedOn(name, false) {
			t.Errorf("%q has a row", name)
		}
	}
	if argument.ByKey("") != nil || argument.ByKey("queue-type") != nil {
		t.Error("an argument that policies do not give has a key")
	}
	if slices.Contains(argument.Names(), argument.Streams) {
		t.Error("a beginning of names is taken for one")
	}
	for name, why := range map[string]string{
		"x-queue-mode": "on disk", "x-queue-version": "on disk", "x-queue-master-locator": "x-queue-leader-locator", "x-ha-policy": "replicated",
		"x-max-length": "", "x-foo": "", "x-ha-policy-params": "",
	} {
		if got := argument.LeftOut(name); !strings.Contains(got, why) || (got == "") != (why == "") {
			t.Errorf("%s is left out because %q", name, got)
		}
	}
}

// Q-8, DL-20: accepted, with a warning.
func TestWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		args     message.Table
		want     []string
		strategy argument.Strategy
		enabled  bool
	}{
		"nothing": {},
		"strategy without exchange": {
			args: table("x-dead-letter-strategy", "at-least-once"), want: []string{"stays disabled"},
		},
		"degraded": {
			args: table("x-dead-letter-exchange", "d", "x-dead-letter-strategy", "at-least-once"),
			want: []string{`works as "at-most-once"`}, strategy: argument.AtMostOnce, enabled: true,
		},
		"DL-20: a backlog of its own": {
			args:     table("x-dead-letter-exchange", "d", "x-dead-letter-strategy", "at-least-once", "x-dead-letter-backlog-limit", 5),
			strategy: argument.AtLeastOnce, enabled: true,
		},
		"whole": {
			args:     table("x-dead-letter-exchange", "d", "x-dead-letter-strategy", "at-least-once", "x-overflow", "reject-publish-dlx"),
			strategy: argument.AtLeastOnce, enabled: true,
		},
		"at-most-once": {
			args: table("x-dead-letter-exchange", "", "x-overflow", "reject-publish"), strategy: argument.AtMostOnce, enabled: true,
		},
		"Q-18: without exchange": {
			args: table("x-on-delete", "dead-letter"), want: []string{"messages of a deleted queue are dropped"},
		},
		"Q-18: nothing to say": {args: table("x-on-delete", "discard")},
		"Q-18: with an exchange": {
			args: table("x-on-delete", "dead-letter", "x-dead-letter-exchange", ""), strategy: argument.AtMostOnce, enabled: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := argument.Resolve(c.args, false)
			if err != nil {
				t.Fatal(err)
			}
			if len(e.Warnings) != len(c.want) {
				t.Fatalf("warnings %q, want %q", e.Warnings, c.want)
			}
			for i, want := range c.want {
				if !strings.Contains(e.Warnings[i], want) {
					t.Errorf("warning %q, want one with %q", e.Warnings[i], want)
				}
			}
			if s, ok := e.EffectiveStrategy(); s != c.strategy || ok != c.enabled {
				t.Errorf("strategy %q, %v; want %q, %v", s, ok, c.strategy, c.enabled)
			}
		})
	}
}
