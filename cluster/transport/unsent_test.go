package transport

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// What was never sent to a peer that does not read is reported when its stream ends: each frame once, none
// of those that the peer gets, all before the stream is said to be down. What was sent, or finds no
// stream, is not.
func TestUnsent(t *testing.T) {
	const frames = 2000
	a, b := start(t, testConfig("n1", 1)), start(t, testConfig("n2", 1))
	gate, arrived := make(chan struct{}), make(chan struct{}, frames+1)
	b.recorder.answer = func() {
		arrived <- struct{}{}
		<-gate
	}
	meet(a, b)
	connected(t, b, a)
	peer := Peer{Node: "n2", Epoch: 1}
	notice := func(i int) *nodev1.Frame {
		return &nodev1.Frame{Kind: &nodev1.Frame_Deliveries{Deliveries: &nodev1.Deliveries{
			Queue: uint64(i), Deliveries: []*nodev1.Delivery{{Message: make([]byte, 16<<10)}},
		}}}
	}
	for i := range frames {
		if err := a.Answer(peer, notice(i), func() { a.recorder.note("unsent %d", i) }); err != nil {
			t.Fatal(err)
		}
	}
	<-arrived // else none of them may have been sent
	a.accepted.drop(peer, fmt.Errorf("%w: for the test", ErrNotConnected))
	const down = "inbound n2/1 false"
	until(t, "the connection is down", func() bool { return slices.Contains(a.recorder.log(), down) })
	events := a.recorder.log()
	if err := a.Answer(Peer{Node: "n2", Epoch: 2}, notice(0), func() { t.Error("told of what was refused") }); !errors.Is(err, ErrNotConnected) {
		t.Errorf("an answer to an epoch that has no connection: %v", err)
	}
	close(gate)

	var unsent []int
	for _, e := range events[:slices.Index(events, down)] {
		var i int
		if n, _ := fmt.Sscanf(e, "unsent %d", &i); n == 1 {
			unsent = append(unsent, i)
		}
	}
	slices.Sort(unsent)
	from := frames - len(unsent)
	for i, n := range unsent {
		if n != from+i || from == 0 {
			t.Fatalf("told before the connection was down: %d frames, number %d of them is %d", len(unsent), i, n)
		}
	}
	if len(unsent) == 0 {
		t.Fatal("all were sent to a peer that does not read")
	}

	const last = 1 << 20
	until(t, "the next connection takes a frame", func() bool { return a.Answer(peer, notice(last), nil) == nil })
	var got []uint64
	until(t, "it comes", func() bool {
		b.recorder.mu.Lock()
		defer b.recorder.mu.Unlock()
		got = got[:0]
		for _, f := range b.recorder.answers {
			got = append(got, f.GetDeliveries().GetQueue())
		}
		return len(got) > 0 && got[len(got)-1] == last
	})
	for i, q := range got[:len(got)-1] {
		if q != uint64(i) || q >= uint64(from) {
			t.Fatalf("frame %d came as number %d; those from %d on were said not to be sent", q, i, from)
		}
	}
	t.Logf("%d of %d frames came, those from %d on were never sent", len(got)-1, frames, from)
}
