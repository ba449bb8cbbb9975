package check

import (
	"testing"
	"time"

	"github.com/quorate/quorate/chaos/history"
)

// pausing is the history of a publisher of a class that is confirmed something each 10 ms, except for a time from the
// fault on, which lasts a second.
func pausing(client, class string, hit []string, pause time.Duration, maxPause float64) []history.Event {
	const begin = time.Second
	out := []history.Event{{Kind: history.Began, Settings: &history.Settings{MaxPause: maxPause, Nodes: []string{"n1", "n2", "n3"}}}}
	confirm := func(id int, when time.Duration) {
		out = append(out,
			at(when, history.Event{Kind: history.Published, Client: client, Publisher: 1, ID: uint64(id), Queues: []string{mainQueue}}),
			at(when, history.Event{Kind: history.Confirmed, Client: client, Publisher: 1, ID: uint64(id), Sent: when}))
	}
	fault := history.Event{Kind: history.Fault, Fault: 1, Nodes: hit, Note: class + " of leader", Class: class}
	healed := history.Event{Kind: history.Healed, Fault: 1, Nodes: hit}
	for id := 1; id < 100; id++ {
		confirm(id, time.Duration(id)*10*ms)
	}
	out = append(out, at(begin, fault), at(begin, history.Event{Kind: history.Published, Client: client, Publisher: 1, ID: 100, Queues: []string{mainQueue}}))
	out = append(out, at(begin+pause, history.Event{Kind: history.Confirmed, Client: client, Publisher: 1, ID: 100, Sent: begin}))
	for id := 101; id < 1200; id++ {
		confirm(id, begin+pause+time.Duration(id-100)*10*ms)
	}
	return with(at(2*begin, healed))(out)
}

// What is judged, and by which limit, depends on the client, on the class of the fault, and on how many nodes it hit.
func TestGoesOn(t *testing.T) {
	one, two := []string{"n1"}, []string{"n1", "n2"}
	for name, test := range map[string]struct {
		client, class string
		hit           []string
		pause         time.Duration
		factor        float64
		checked       int
		broken        bool
	}{
		"within the limit":                     {"grpc/all", "paused", one, 990 * ms, 1, 1, false},
		"beyond the limit":                     {"grpc/all", "paused", one, 1010 * ms, 1, 1, true},
		"a machine that may be slower":         {"grpc/all", "paused", one, 2900 * ms, 3, 1, false},
		"and is still too slow":                {"grpc/all", "paused", one, 3100 * ms, 3, 1, true},
		"one way":                              {"grpc/all", "one way", one, 1400 * ms, 1, 1, false},
		"flapping":                             {"grpc/all", "flapping", one, 1900 * ms, 1, 1, false},
		"a frozen disk":                        {"grpc/all", "disk frozen", one, 1300 * ms, 1, 1, true},
		"a full disk":                          {"grpc/all", "disk full", one, 1600 * ms, 1, 1, true},
		"a node in place of another":           {"grpc/all", "scaled", one, 990 * ms, 1, 1, false},
		"and too long for it":                  {"grpc/all", "scaled", one, 1010 * ms, 1, 1, true},
		"a client of the node that leaves":     {"grpc/one", "scaled", one, 1900 * ms, 1, 1, false},
		"no limit in the settings":             {"grpc/all", "paused", one, 9 * time.Second, 0, 0, false},
		"a class without a limit":              {"grpc/all", "slowed", one, 9 * time.Second, 1, 0, false},
		"a majority, in time after the start":  {"grpc/all", "power cut", two, 5900 * ms, 1, 1, false},
		"a majority, too late after the start": {"grpc/all", "power cut", two, 6100 * ms, 1, 1, true},
		"one after another is no majority":     {"grpc/all", "restarted", two, 1100 * ms, 1, 1, true},
		"a client of one node waits for it":    {"grpc/one", "killed", one, 5900 * ms, 1, 1, false},
		"but not for ever":                     {"grpc/one", "killed", one, 6100 * ms, 1, 1, true},
		"AMQP, where its connection ends":      {"amqp/all", "killed", one, 1100 * ms, 1, 1, true},
		"AMQP, where its node falls silent":    {"amqp/all", "cut off", one, 5900 * ms, 1, 1, false},
	} {
		events := pausing(test.client, test.class, test.hit, test.pause, test.factor)
		if g := goesOn(read(events)); g.Checked != test.checked || (len(g.Broken) > 0) != test.broken {
			t.Errorf("%s: %+v", name, g)
		}
	}
}

// A queue that lacks a member has no majority without another one: what counts is when clients go on after the healing.
func TestPauseOfShortQueue(t *testing.T) {
	for pause, broken := range map[time.Duration]bool{5900 * ms: false, 6100 * ms: true} {
		events := pausing("grpc/all", "disk failed", []string{"n1"}, pause, 1)
		for i := range events {
			events[i].Short = events[i].Kind == history.Fault
		}
		if g := goesOn(read(events)); g.Checked != 1 || (len(g.Broken) > 0) != broken {
			t.Errorf("%v: %+v", pause, g)
		}
	}
}

// A change of members continues after the fault that hit it: the next fault may hit another member of the same queue.
func TestPauseAfterChange(t *testing.T) {
	for class, test := range map[string]struct {
		pause  time.Duration
		broken bool
	}{
		"killed":      {1900 * ms, true},
		MembersChange: {1900 * ms, false},
	} {
		before := history.Event{Kind: history.Fault, Fault: 9, Nodes: []string{"n3"}, Note: "change of anyone", Class: class}
		events := with(at(100*ms, before), at(200*ms, history.Event{Kind: history.Healed, Fault: 9}))(
			pausing("grpc/all", "disk failed", []string{"n1"}, test.pause, 1))
		if g := goesOn(read(events)); g.Checked == 0 || (len(g.Broken) > 0) != test.broken {
			t.Errorf("after %q: %+v", class, g)
		}
	}
}

// Faults that overlap cannot be distinguished: what counts is when clients go on after the last was
// healed.
func TestOverlappingFaults(t *testing.T) {
	for pause, broken := range map[time.Duration]bool{6800 * ms: false, 7000 * ms: true} { // from 1 s on, healed at 2.9
		events := with(
			at(1500*ms, history.Event{Kind: history.Fault, Fault: 2, Nodes: []string{"n2"}, Note: "kill of follower", Class: "killed"}),
			at(2900*ms, history.Event{Kind: history.Healed, Fault: 2}),
		)(pausing("grpc/all", "paused", []string{"n1"}, pause, 1))
		if g := goesOn(read(events)); g.Checked == 0 || (len(g.Broken) > 0) != broken {
			t.Errorf("%v: %+v", pause, g)
		}
	}
}

// A publisher that had got all that it waited for when the next fault begins has continued: what it publishes then is
// that one's. One that still waits has not, whatever comes next.
func TestRestsUntilNextFault(t *testing.T) {
	const client = "grpc/all of queues at rest"
	publish := func(when time.Duration, id uint64) history.Event {
		return at(when, history.Event{Kind: history.Published, Client: client, Publisher: 1, ID: id, Queues: []string{mainQueue}})
	}
	confirm := func(when time.Duration, id uint64) history.Event {
		return at(when, history.Event{Kind: history.Confirmed, Client: client, Publisher: 1, ID: id})
	}
	for name, test := range map[string]struct {
		confirmed time.Duration // of what was published before the first fault
		broken    bool
	}{
		"at rest before the first fault": {900 * ms, false},
		"at rest during it":              {1500 * ms, false},
		"it waits":                       {30 * time.Second, true},
	} {
		events := with(
			publish(890*ms, 1), publish(891*ms, 2), confirm(899*ms, 1), confirm(test.confirmed, 2),
			at(time.Second, history.Event{Kind: history.Fault, Fault: 1, Nodes: []string{"n1"}, Note: "kill of leader", Class: "killed"}),
			at(2*time.Second, history.Event{Kind: history.Healed, Fault: 1}),
			at(9*time.Second, history.Event{Kind: history.Fault, Fault: 2, Nodes: []string{"n1", "n2"}, Note: "kill of all", Class: "killed"}),
			publish(10*time.Second, 3), at(11*time.Second, history.Event{Kind: history.Unknown, Client: client, Publisher: 1, ID: 3}),
			at(12*time.Second, history.Event{Kind: history.Healed, Fault: 2}),
			publish(40*time.Second, 4), confirm(41*time.Second, 4),
		)([]history.Event{{Kind: history.Began, Settings: &history.Settings{MaxPause: 1, Nodes: []string{"n1", "n2", "n3"}}}})
		if g := goesOn(read(events)); g.Checked == 0 || (len(g.Broken) > 0) != test.broken {
			t.Errorf("%s: %+v", name, g)
		}
	}
}

// A publisher that never continues is found, as long as it still tries; one that had ended is not.
func TestNeverGoesOn(t *testing.T) {
	events := pausing("grpc/all", "power cut", []string{"n1", "n2"}, 100*ms, 1)
	tries := without(func(e history.Event) bool { return e.Kind == history.Confirmed && e.At >= time.Second })(events)
	if g := goesOn(read(tries)); len(g.Broken) != 1 {
		t.Errorf("still publishing: %+v", g)
	}
	ended := without(func(e history.Event) bool { return e.Publisher == 1 && e.At >= time.Second })(events)
	if g := goesOn(read(ended)); len(g.Broken) != 0 {
		t.Errorf("has ended: %+v", g)
	}
}
