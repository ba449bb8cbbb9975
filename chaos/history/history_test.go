package history

import (
	"bytes"
	"reflect"
	"testing"
	"time"
	"unsafe"
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

// Events that are read share their texts: those of an hour would not fit into memory otherwise.
func TestReadSharesTexts(t *testing.T) {
	const line = `{"kind":"delivered","client":"grpc/all","queue":"chaos.q","consumer":"c1","queues":["chaos.r"],"outcome":"ack","deaths":[{"queue":"chaos.d","reason":"expired","count":1}]}` + "\n"
	got, err := Read(bytes.NewBufferString(line + line))
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	texts := func(e *Event) []string {
		return []string{string(e.Kind), e.Client, e.Queue, e.Consumer, e.Queues[0], string(e.Outcome), e.Deaths[0].Queue, e.Deaths[0].Reason}
	}
	second := texts(&got[1])
	for i, text := range texts(&got[0]) {
		if unsafe.StringData(text) != unsafe.StringData(second[i]) {
			t.Errorf("%q is in memory twice", text)
		}
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

// Events are the same, however many blocks they fill, from any of them on, and whether they are copied or taken.
func TestBlocks(t *testing.T) {
	h := New()
	const most = 3*blockEvents + 5
	var all []Event
	for n := 1; len(all) < most; n = n*3 + 1 {
		some := make([]Event, min(n, most-len(all)))
		for i := range some {
			some[i] = Event{Kind: Published, ID: uint64(len(all) + i)}
		}
		h.Add(some...)
		all = append(all, some...)
	}
	for _, from := range []int{0, 1, blockEvents - 1, blockEvents, blockEvents + 1, most - 1, most, most + 1, 5 * blockEvents} {
		got := h.Since(from)
		if len(got) != max(0, most-from) || len(got) > 0 && (got[0].ID != uint64(from) || got[len(got)-1].ID != most-1) {
			t.Fatalf("from %d on there are %d events, want %d", from, len(got), max(0, most-from))
		}
	}
	if got := h.Events(); !reflect.DeepEqual(got, h.Take()) || len(got) != most {
		t.Fatalf("%d events are not those that are taken", len(got))
	}
	if left := h.Events(); len(left) != 0 {
		t.Fatalf("%d events are left", len(left))
	}
}

func TestLasting(t *testing.T) {
	h := New()
	h.Add(Event{Kind: Fault, Fault: 1}, Event{Kind: Fault, Fault: 2, Note: "kill"}, Event{Kind: Healed, Fault: 1})
	if l := h.Lasting(); len(l) != 1 || l[0].Note != "kill" {
		t.Fatalf("lasting %+v", l)
	}
}
