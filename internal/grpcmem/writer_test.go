package grpcmem_test

import (
	"bytes"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/quorate/quorate/internal/grpcmem"
)

// A Writer writes the same bytes whatever is shared, refers to what is, and can be used again.
func TestWriter(t *testing.T) {
	p, w := &grpcmem.Pool{}, grpcmem.Writer{}
	few, many := bytes.Repeat([]byte("f"), 100), bytes.Repeat([]byte("m"), 100_000)
	for i, fields := range [][][]byte{
		{}, {few}, {many}, {few, many}, {many, few}, {many, many, few, nil, many, few, few}, {few, few},
	} {
		var want []byte
		shared, large := 0, 0
		for _, data := range fields {
			want = protowire.AppendTag(want, 7, protowire.BytesType)
			want = protowire.AppendBytes(want, data)
			if n := grpcmem.Shared(data); n > 0 {
				shared, large = shared+n, large+1
			}
		}
		w.Begin(p, len(want)-shared)
		for _, data := range fields {
			w.Data(7, data)
		}
		got, err := w.Finish(len(want))
		if err != nil || !bytes.Equal(got.Materialize(), want) {
			t.Fatalf("message %d has %d bytes, want %d: %v", i, got.Len(), len(want), err)
		}
		for _, b := range got {
			if d := b.ReadOnlyData(); len(d) == len(many) && &d[0] == &many[0] {
				large--
			}
		}
		if large != 0 {
			t.Errorf("message %d copies %d large fields", i, large)
		}
		got.Free()
	}
}

// What is shorter or longer than was measured is not sent: behind it are another message's bytes.
func TestWriterMeasures(t *testing.T) {
	p, w := &grpcmem.Pool{}, grpcmem.Writer{}
	for _, data := range [][]byte{make([]byte, 10), make([]byte, 10_000)} {
		for _, wrong := range []int{-1, 1} {
			w.Begin(p, 20)
			w.Data(1, data)
			whole := len(protowire.AppendBytes(nil, data)) + 1
			if _, err := w.Finish(whole + wrong); err == nil {
				t.Errorf("%d bytes were taken for %d", whole, whole+wrong)
			}
		}
	}
	w.Begin(p, 20)
	w.Data(1, make([]byte, 10_000))
	w.Drop()
	w.Begin(p, 20)
	if got, err := w.Finish(0); err != nil || got.Len() != 0 {
		t.Errorf("%d bytes of a dropped message are left: %v", got.Len(), err)
	}
}

// The buffer of a message goes back to the pool once all of its pieces are freed, and not before.
func TestWriterGivesBack(t *testing.T) {
	p, w := &grpcmem.Pool{}, grpcmem.Writer{}
	w.Begin(p, 100)
	w.Data(1, []byte("a"))
	w.Data(2, make([]byte, 10_000))
	w.Data(3, []byte("b"))
	got, err := w.Finish(len(protowire.AppendBytes(nil, make([]byte, 10_000))) + 1 + 3 + 3)
	if err != nil {
		t.Fatal(err)
	}
	first := slices.Clone(got[0].ReadOnlyData())
	for _, b := range slices.Backward(got[1:]) {
		b.Free()
	}
	other := p.Get(100)
	copy((*other)[:cap(*other)], bytes.Repeat([]byte("x"), cap(*other)))
	if !bytes.Equal(got[0].ReadOnlyData(), first) {
		t.Error("a buffer was lent while a piece of it was in use")
	}
	got[0].Free()
}
