package liveness

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/quorate/quorate/id"
)

// TestSteadiness runs testdata/steady: how peers are seen at times, and which of them are unsteady then, and lost after
// the silence that a line gives.
func TestSteadiness(t *testing.T) {
	t.Parallel()
	k := newTestCore("a")
	datadriven.RunTest(t, "testdata/steady", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "new" {
			k = newTestCore("a")
			for _, a := range d.CmdArgs {
				k.judge(start(), id.NodeID(a.Key), false)
			}
			return "ok\n"
		}
		var out strings.Builder
		for line := range strings.Lines(d.Input) {
			out.WriteString(seen(t, d, k, strings.Fields(line)))
		}
		return out.String()
	})
}

// seen carries out a line "TIME NODE silent DURATION", "TIME NODE far DURATION" or "TIME NODE down", and returns what is
// known then.
func seen(t *testing.T, d *datadriven.TestData, k *core, words []string) string {
	t.Helper()
	duration := func(text string) time.Duration {
		v, err := time.ParseDuration(text)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		return v
	}
	if len(words) < 3 {
		d.Fatalf(t, "%q: want TIME NODE silent or far DURATION, or TIME NODE down", words)
	}
	at, n := duration(words[0]), id.NodeID(words[1])
	now := start().Add(at)
	k.awake(now, time.Hour) // nothing here is about a node that slept
	switch words[2] {
	case "down":
		k.note(now, n, 0, false)
		k.look(now, n, 0, false, false)
	case "far": // heartbeats are due when they come, and take so long both ways
		k.note(now, n, 0, true)
		k.look(now, n, duration(words[3]), true, false)
	default:
		k.note(now, n, duration(words[3]), true)
		k.look(now, n, duration(words[3]), true, false)
	}
	what := "steady"
	if p := k.peer(n); p.steady.unsteady(now) {
		what = "unsteady until " + p.steady.until.Sub(start()).String()
		if !k.unsteady(now, p) {
			what += ", as others are"
		}
	}
	if k.peer(n).lost {
		what += ", lost"
	}
	return fmt.Sprintf("%v %s: %s\n", at, n, what)
}
