package amqp

import (
	"testing"

	"github.com/quorate/quorate/internal/incoming"
)

// The connection whose message has been under way for the longest gets what it needs, whoever else
// waits; the others follow in their order.
func TestIncomingOrder(t *testing.T) {
	in := NewIncoming(incoming.New(100), IncomingLimits{ConnectionBytes: 80})
	conns := map[string]*conn{}
	charges, claims := map[string]*charge{}, map[string]*claim{}
	conn := func(name string) *conn {
		if conns[name] == nil {
			c := &conn{}
			c.changed.L = &c.mu
			conns[name] = c
		}
		return conns[name]
	}
	charge := func(name string) *charge {
		if charges[name] == nil {
			charges[name] = &charge{c: conn(name[:1])}
		}
		return charges[name]
	}
	for _, step := range []struct {
		what, who string
		n         int64
		want      string
	}{
		{"take", "a1", 40, "granted"},
		{"take", "b1", 40, "granted"},
		{"take", "c1", 30, "waits"},
		{"take", "d1", 10, "waits"},   // there is room, but it is not its turn
		{"take", "b1", 10, "waits"},   // nor the turn of one that holds some
		{"take", "a2", 40, "granted"}, // the first: as much as a connection may have
		{"take", "a2", 1, "over"},     // and no more
		{"release", "a1", 0, ""},      // 80 are taken, and b is the first
		{"is", "b1", 0, "granted"},    // which never waits
		{"is", "c1", 0, "waits"},      // 90 are taken
		{"take", "a3", 40, "waits"},   // it is no longer the first
		{"release", "a2", 0, ""},      // 50 are taken
		{"is", "c1", 0, "granted"},    // 80
		{"is", "d1", 0, "granted"},    // 90
		{"is", "a3", 0, "waits"},      //
		{"take", "d2", 5, "waits"},    // behind it
		{"leave", "a3", 0, ""},        // its connection ended
		{"is", "d2", 0, "granted"},    // 95
		{"release", "b1", 0, ""},      //
		{"release", "c1", 0, ""},      //
		{"release", "d1", 0, ""},      //
		{"release", "d1", 0, ""},      // once
		{"take", "e1", 80, "granted"}, // 85
		{"release", "d2", 0, ""},      //
		{"release", "e1", 0, ""},      //
		{"take", "e1", 80, "granted"}, //
		{"release", "e1", 0, ""},      //
	} {
		have := ""
		switch step.what {
		case "take":
			w, over := in.take(charge(step.who), step.n)
			switch {
			case over:
				have = "over"
			case w == nil:
				have = "granted"
			default:
				have, claims[step.who] = "waits", w
			}
		case "release":
			in.release(charge(step.who))
		case "leave":
			in.leave(claims[step.who])
		case "is":
			if have = "waits"; claims[step.who].granted.Load() {
				have = "granted"
			}
		}
		if have != step.want {
			t.Fatalf("%+v: %q", step, have)
		}
	}
	if x := in.Stats(); x.Bytes != 0 || x.Waiting != 0 || in.budget.Used() != 0 || x.Waits != 5 || x.Refused != 1 || in.begun.Len() != 0 || in.waiting.Len() != 0 {
		t.Errorf("%+v", x)
	}
	for name, c := range conns {
		if c.asked != 0 {
			t.Errorf("%s still has %d bytes", name, c.asked)
		}
	}
}
