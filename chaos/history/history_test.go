package history

import (
	"bytes"
	"reflect"
	"testing"
	"time"
)

func TestRoundTrip(t *testing.T) {
	h := New()
	h.Add(
		Event{Kind: Declared, Queue: "q", Spec: &Queue{DeadTo: "dead", DeliveryLimit: 3, TTL: time.Second, Ordered: true}},
		Event{Kind: Published, Publisher: h.Publisher(), ID: 1, Queues: []string{"q"}, TTL: time.Minute},
		Event{Kind: Delivered, Publisher: 1, ID: 1, Consumer: h.Consumer(), Acquired: 2, Deaths: []Death{{"q", "expired", 1}}},
		Event{Kind: Register, Op: &Operation{Client: 1, Name: "r", Write: true, Value: "x", Call: 1, Return: 2}},
		Event{Kind: Resources, Node: "n1", Figures: map[string]float64{"goroutines": 7}},
	)
	var b bytes.Buffer
	if err := Write(&b, h.Events()); err != nil {
		t.Fatal(err)
	}
	got, err := Read(&b)
	if err != nil || !reflect.DeepEqual(got, h.Events()) {
		t.Fatalf("got %+v, want %+v: %v", got, h.Events(), err)
	}
}

func TestReadRefuses(t *testing.T) {
	if _, err := Read(bytes.NewBufferString("{\"kind\":\"led\"}\n{broken")); err == nil {
		t.Fatal("half a line is read as an event")
	}
}

func TestTimesRise(t *testing.T) {
	h := New()
	h.Add(Event{Kind: Led}, Event{Kind: Led})
	h.Add(Event{Kind: Led})
	e := h.Events()
	if e[0].At != e[1].At || e[2].At < e[1].At {
		t.Fatalf("times %v %v %v", e[0].At, e[1].At, e[2].At)
	}
}

func TestLasting(t *testing.T) {
	h := New()
	h.Add(Event{Kind: Fault, Fault: 1}, Event{Kind: Fault, Fault: 2, Note: "kill"}, Event{Kind: Healed, Fault: 1})
	if l := h.Lasting(); len(l) != 1 || l[0].Note != "kill" {
		t.Fatalf("lasting %+v", l)
	}
}
