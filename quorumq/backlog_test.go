package quorumq

import (
	"fmt"
	"testing"
)

// TestBacklogNumbers shows that numbers continue whatever leaves the backlog, and that the
// watermark stays below the first entry that is left (DL-25).
func TestBacklogNumbers(t *testing.T) {
	var b backlog
	var e Effects
	b.init()
	push := func() {
		d := newDiscarded(&held{message: message{index: 1, size: 5}}, ReasonRejected, 0, 1)
		b.push(&d, &e)
	}
	for range 4 {
		push()
	}
	settled := func(want Seq) {
		t.Helper()
		if got := b.settledUpTo(); got != want {
			t.Errorf("settled up to %d, want %d", got, want)
		}
		if err := b.check(); err != nil {
			t.Error(err)
		}
	}
	settled(0)
	b.remove(2)
	settled(0)
	b.remove(1)
	settled(2)
	if page := b.page(nil, 2, 1); len(page) != 1 || page[0].Seq != 3 {
		t.Errorf("page %v", page)
	}
	b.reset()
	settled(4)
	push()
	settled(4)
	if !e.Backlog || b.bytes != 5 || b.page(nil, 0, 9)[0].Seq != 5 {
		t.Errorf("news %t, %d bytes, %v", e.Backlog, b.bytes, b.page(nil, 0, 9))
	}
}

// TestDestinationsAreBounded shows that a destination is known as long as a message is on its way
// to it, that its number is reused afterwards, and that there are never too many destinations.
func TestDestinationsAreBounded(t *testing.T) {
	var b backlog
	var e Effects
	b.init()
	at := func(i int) Destination { return Destination{Kind: ToQueue, Name: fmt.Sprint(i)} }
	h := held{message: message{index: 1, size: 1}}
	for i := range MaxDestinations {
		to := b.destinationOf(at(i))
		if to == nil || int(to.id) != i+1 {
			t.Fatalf("destination %d is %v", i, to)
		}
		b.send(&h, to, 1, &e)
	}
	if to := b.destinationOf(at(MaxDestinations)); to != nil {
		t.Fatalf("one too many is %v", to)
	}
	if to := b.destinationOf(at(7)); to == nil || to.id != 8 {
		t.Fatalf("a known one is %v", to)
	}
	if to := b.destinationsOf([]Output{{Exchange: "new"}}); to != nil {
		t.Fatalf("outputs go to one too many, %v", to)
	}
	b.remove(8) // the only message to destination 7
	to := b.destinationOf(at(MaxDestinations))
	if to == nil || to.id != 8 {
		t.Fatalf("the free number is not used again: %v", to)
	}
	if b.leave(to); b.destinations[8] != nil {
		t.Error("a destination to which nothing goes is kept")
	}
	if n := b.moving(); n != MaxDestinations-1 {
		t.Errorf("%d messages are moving", n)
	}
	if err := b.check(); err != nil {
		t.Error(err)
	}
}

// TestAnnotationsAreReleasedOnce shows that a body of annotations is released with the last message
// that shares it, and not before.
func TestAnnotationsAreReleasedOnce(t *testing.T) {
	a, body := make(annotations), BodyRef{Index: 3, Slot: 1}
	var e Effects
	a.share(BodyRef{})
	a.share(body)
	a.share(body)
	a.drop(BodyRef{}, &e)
	if a.drop(body, &e); len(e.Release) != 0 {
		t.Fatalf("released %v while one shares it", e.Release)
	}
	if a.drop(body, &e); len(e.Release) != 1 || e.Release[0] != body || len(a) != 0 {
		t.Errorf("released %v, %v are left", e.Release, a)
	}
}
