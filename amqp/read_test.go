package amqp

import (
	"bytes"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/quorate/quorate/amqp/wire"
)

// Frames are read whole whatever arrives at a time. A connection of which much arrives borrows a buffer, and has given it
// back when it waits for more.
func TestReadBuffers(t *testing.T) {
	s := &Server{}
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = ours.Close() })
	c := &conn{s: s, nc: ours, frameMax: 128 << 10, chanMax: 1}
	r := rand.New(rand.NewPCG(1, 2))
	var all []byte
	var bodies [][]byte
	for range 300 {
		body := bytes.Repeat([]byte{byte(r.IntN(256))}, []int{1, 100, 3000, 1 + r.IntN(50_000)}[r.IntN(4)])
		bodies = append(bodies, body)
		all = wire.AppendBody(all, 1, body, 128<<10)
	}
	go func() {
		for b := all; len(b) > 0; {
			n := min(len(b), 1+r.IntN(200_000))
			_, _ = theirs.Write(b[:n])
			b = b[n:]
		}
		for range 3 {
			_, _ = theirs.Write(wire.AppendBody(nil, 1, []byte("last"), 0))
		}
	}()
	lent := 0
	for i, want := range bodies {
		f, err := c.readFrame()
		if err != nil || !bytes.Equal(f.Payload, want) {
			t.Fatalf("frame %d: %d bytes, want %d: %v", i, len(f.Payload), len(want), err)
		}
		if c.lent != nil {
			lent++
		}
	}
	for range 3 {
		if f, err := c.readFrame(); err != nil || string(f.Payload) != "last" {
			t.Fatalf("%q, %v", f.Payload, err)
		}
	}
	if lent == 0 || c.lent != nil {
		t.Errorf("a buffer was lent for %d frames, and is now: %v", lent, c.lent != nil)
	}
}
