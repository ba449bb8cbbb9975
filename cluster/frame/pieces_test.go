package frame

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/internal/grpcmem"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// queueFrames are the frames with messages, in all their forms.
func queueFrames() []*nodev1.Frame {
	large := bytes.Repeat([]byte("large"), 4_000)
	command := func(c *nodev1.QueueCommand) *nodev1.Frame {
		return &nodev1.Frame{Kind: &nodev1.Frame_QueueCommand{QueueCommand: c}}
	}
	deliveries := func(d *nodev1.Deliveries) *nodev1.Frame {
		return &nodev1.Frame{Kind: &nodev1.Frame_Deliveries{Deliveries: d}}
	}
	return []*nodev1.Frame{
		command(&nodev1.QueueCommand{}),
		command(&nodev1.QueueCommand{Queue: 1 << 40}),
		command(&nodev1.QueueCommand{
			Request: 7, Queue: 1024, Header: []byte("header"), Deferrable: true,
			Bodies: [][]byte{[]byte("small"), large, {}, large[:5000], large[:5000-1], large[:smallBytes], large[:smallBytes+1]},
		}),
		command(&nodev1.QueueCommand{Request: 8, Queue: 1024, Header: large}),
		deliveries(&nodev1.Deliveries{}),
		deliveries(&nodev1.Deliveries{Queue: 1024, Deliveries: []*nodev1.Delivery{
			{Epoch: 1, Session: 2, Tag: 3, MsgId: 1 << 50, DeliveryCount: 4, AcquiredCount: 1 << 31, Message: large, Annotations: []byte("annotations")},
			{},
			{MsgId: 2, Message: []byte("small")},
			{MsgId: 3, Message: large[:5000], Annotations: large},
		}}),
	}
}

// messages are messages with frames of all kinds.
func messages(t *testing.T) [][]byte {
	var all [][]byte
	var every []Out
	for _, c := range calls() {
		every = append(every, Out{Call: &AppendCall{Group: 1024, Request: 300, Args: *c}})
	}
	for _, f := range queueFrames() {
		every = append(every, Out{Frame: f})
	}
	every = append(every, Out{Answer: &AppendAnswer{Request: 4}}, Out{Frame: &nodev1.Frame{Kind: &nodev1.Frame_Ping{Ping: &nodev1.Ping{Number: 1}}}})
	for i := range every {
		all = append(all, encode(t, &OutMessage{Frames: every[i : i+1]}))
	}
	return append(all, encode(t, &OutMessage{Frames: every}))
}

// cut returns a message in pieces of a size; the first one has another.
func cut(b []byte, first, size int) source {
	s := source{left: len(b)}
	for n := first; len(b) > 0; n = size {
		n = min(n, len(b))
		s.rest = append(s.rest, mem.SliceBuffer(b[:n]))
		b = b[n:]
	}
	return s
}

func sameFrames(a, b []In) bool {
	return slices.EqualFunc(a, b, func(x, y In) bool {
		switch {
		case x.Group != y.Group || x.Request != y.Request || (x.Call == nil) != (y.Call == nil) || (x.Answer == nil) != (y.Answer == nil):
			return false
		case x.Call != nil:
			return sameCall(x.Call, y.Call)
		case x.Answer != nil:
			return reflect.DeepEqual(x.Answer, y.Answer)
		}
		return proto.Equal(x.Frame, y.Frame)
	})
}

// Frames with messages have the bytes that proto/node/v1 describes, and are read as package proto reads them.
func TestQueueFramesAreProto(t *testing.T) {
	for i, f := range queueFrames() {
		byHand := encode(t, &OutMessage{Frames: []Out{{Frame: f}}})
		byProto := encode(t, &nodev1.LinkRequest{Frames: []*nodev1.Frame{f}})
		if !bytes.Equal(byHand, byProto) {
			t.Errorf("frame %d has %d bytes, by proto %d, or others", i, len(byHand), len(byProto))
		}
		got := decode(t, byHand).Frames
		if len(got) != 1 || !proto.Equal(got[0].Frame, f) {
			t.Errorf("frame %d is read otherwise", i)
		}
	}
}

// A message is the same in whatever pieces it comes, and keeps nothing of them.
func TestPieces(t *testing.T) {
	for i, b := range messages(t) {
		want := decode(t, slices.Clone(b))
		for _, size := range []int{1, 2, 7, 1000, 16 << 10} {
			for _, first := range []int{0, 1, 5, len(b)} {
				pieces, m := slices.Clone(b), NewInMessage("n1")
				if err := m.read(cut(pieces, first, size)); err != nil {
					t.Fatalf("message %d in pieces of %d: %v", i, size, err)
				}
				for j := range pieces {
					pieces[j] = 0xff
				}
				if m.Bytes != len(b) || !sameFrames(m.Frames, want.Frames) {
					t.Fatalf("message %d is another one in pieces of %d", i, size)
				}
			}
		}
	}
}

// A message that is cut off anywhere, with the rest in any pieces, is malformed, or has fewer frames.
func TestPiecesCutOff(t *testing.T) {
	b := encode(t, &OutMessage{Frames: []Out{{Call: &AppendCall{Group: 1024, Request: 300, Args: *calls()[1]}}, {Frame: queueFrames()[1]}}})
	for n := range b {
		for size := 1; size < 4; size++ {
			m := NewInMessage("n1")
			if err := m.read(cut(b[:n], 0, size)); err == nil && len(m.Frames) > 1 {
				t.Errorf("%d of %d bytes were read as %d frames", n, len(b), len(m.Frames))
			}
		}
	}
}

// Large data is sent from where it is; all else is in one pooled buffer.
func TestLargeDataIsNotCopied(t *testing.T) {
	r := calls()[2]
	m := &OutMessage{Frames: []Out{{Call: &AppendCall{Group: 1, Request: 2, Args: *r}}, {Frame: queueFrames()[2]}, {Answer: &AppendAnswer{Request: 4}}}}
	for i := range m.Frames {
		m.Frames[i].Measure()
	}
	b, err := NewCodec(&grpcmem.Pool{}).Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Free()
	var large int
	for _, data := range [][]byte{r.Entries[2].Data, queueFrames()[2].GetQueueCommand().GetBodies()[1], m.Frames[1].Frame.GetQueueCommand().GetBodies()[1], m.Frames[1].Frame.GetQueueCommand().GetBodies()[3]} {
		if slices.ContainsFunc(b, func(p mem.Buffer) bool { d := p.ReadOnlyData(); return len(d) == len(data) && &d[0] == &data[0] }) {
			large++
		}
	}
	if large != 3 { // the second is another one with the same bytes
		t.Errorf("%d of 3 were not copied", large)
	}
}

// The bytes of a frame that was changed after it was measured are not sent.
func TestChangedFrame(t *testing.T) {
	for _, before := range [][]byte{nil, make([]byte, 5000+1)} {
		for _, size := range []int{10, 5000, 2 * 5000} {
			f := &nodev1.QueueCommand{Queue: 1024, Bodies: [][]byte{before}}
			m := &OutMessage{Frames: []Out{{Frame: &nodev1.Frame{Kind: &nodev1.Frame_QueueCommand{QueueCommand: f}}}}}
			m.Frames[0].Measure()
			f.Bodies[0] = make([]byte, size)
			if _, err := NewCodec(&grpcmem.Pool{}).Marshal(m); err == nil {
				t.Errorf("a body of %d bytes became one of %d, and was sent", len(before), size)
			}
		}
	}
}
