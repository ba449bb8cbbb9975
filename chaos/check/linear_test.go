package check

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/quorate/quorate/chaos/history"
)

// A search that is not over in time is unknown, and so is the history: never valid.
func TestNotDecidedInTime(t *testing.T) {
	var operations []porcupine.Operation
	for i := range 40 { // all at the same time, and of no order
		op := &history.Operation{Client: i, Name: "r", Write: i%2 == 0, Value: string(rune('a' + i)), Call: 1, Return: 100}
		operations = append(operations, porcupine.Operation{ClientId: i, Input: op, Call: 1, Return: 100})
	}
	if result, _ := linearizable(registerModel(), operations, 0); result != porcupine.Unknown {
		t.Errorf("without time: %v", result)
	}
	if result, _ := linearizable(registerModel(), operations, 50*time.Millisecond); result != porcupine.Unknown {
		t.Errorf("with too little time: %v", result)
	}
	r := Report{Verdict: Valid, Counts: Counts{Confirmed: 1}, Guarantees: []Guarantee{{Name: declares, Missing: "not decided"}}}
	if r.conclude(); r.Verdict != Undecidable {
		t.Errorf("the history is %s", r.Verdict)
	}
}

// A write whose outcome is unknown may have taken effect, at any time, or not at all.
func TestUncertainWrites(t *testing.T) {
	const s = time.Second
	for name, test := range map[string]struct {
		read  string
		valid bool
	}{"took effect": {"x", true}, "did not": {"", true}, "another value": {"y", false}} {
		write := operation(1, true, "x", 1*s, 2*s)
		write.Op.Uncertain = true
		nobody := operation(3, false, "", 1*s, 2*s)
		nobody.Op.Uncertain = true // read nothing
		g := registers(read([]history.Event{write, nobody, operation(2, false, test.read, 3*s, 4*s)}))
		if (len(g.Broken) == 0) != test.valid || g.Checked != 2 {
			t.Errorf("%s: %+v", name, g)
		}
	}
}

// Windows overlap, so what is wrong at their borders is found.
func TestFIFOWindows(t *testing.T) {
	const n = 3 * fifoWindow
	for swap := fifoWindow/2 - 2; swap < n-1; swap += fifoWindow / 4 {
		events := []history.Event{{Kind: history.Declared, Queue: mainQueue, Spec: &history.Queue{DeliveryLimit: -1, Ordered: true}}}
		when := time.Duration(0)
		add := func(e history.Event) {
			when += ms
			events = append(events, at(when, e))
		}
		for i := range n { // each by another publisher, so that inOrder sees nothing
			add(history.Event{Kind: history.Published, Publisher: i + 1, ID: 1, Queues: []string{mainQueue}})
			add(history.Event{Kind: history.Confirmed, Publisher: i + 1, ID: 1})
		}
		for i := range n {
			switch i {
			case swap:
				i++
			case swap + 1:
				i--
			}
			add(history.Event{Kind: history.Delivered, Publisher: i + 1, ID: 1, Queue: mainQueue, Consumer: "c"})
		}
		if g := inTime(read(events)); len(g.Broken) != 1 || g.Broken[0].Message.Publisher != swap+1 {
			t.Fatalf("swapped at %d: %+v", swap, g)
		}
	}
}

// What several consumers receive at the same time has no order.
func TestFIFOOfSeveralConsumers(t *testing.T) {
	events := []history.Event{{Kind: history.Declared, Queue: mainQueue, Spec: &history.Queue{DeliveryLimit: -1, Ordered: true}}}
	for i := range 4 {
		events = append(events, at(time.Duration(i)*ms, published(uint64(i+1), mainQueue)), at(time.Duration(i)*ms, answered(history.Confirmed, uint64(i+1))))
	}
	for i, to := range []string{"a", "b", "a", "b"} {
		events = append(events, at(time.Duration(10+i)*ms, delivered(uint64(i+1), mainQueue, to, 0, 0)))
	}
	if g := inTime(read(events)); g.Checked != 0 || len(g.Broken) > 0 {
		t.Errorf("%+v", g)
	}
}
