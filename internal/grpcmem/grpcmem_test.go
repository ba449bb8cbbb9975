package grpcmem_test

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/quorate/quorate/internal/grpcmem"
)

// Buffers have the length asked for, and come back in their size.
func TestPool(t *testing.T) {
	p := &grpcmem.Pool{}
	for _, c := range []struct{ length, capacity int }{
		{0, 2 << 10}, {1, 2 << 10}, {2 << 10, 2 << 10}, {2<<10 + 1, 4 << 10}, {40 << 10, 64 << 10}, {8 << 20, 8 << 20}, {8<<20 + 1, 8<<20 + 1},
	} {
		b := p.Get(c.length)
		if len(*b) != c.length || cap(*b) != c.capacity {
			t.Errorf("length %d: got %d of %d, want %d", c.length, len(*b), cap(*b), c.capacity)
		}
		p.Put(b)
		if again := p.Get(c.length); len(*again) != c.length || cap(*again) != c.capacity {
			t.Errorf("length %d again: got %d of %d", c.length, len(*again), cap(*again))
		}
	}
	odd := make([]byte, 3000)
	p.Put(&odd)
	if b := p.Get(2900); cap(*b) != 4<<10 {
		t.Errorf("capacity %d, want 4096", cap(*b))
	}
}

// A lent buffer is one that was given back, whatever is in it: gRPC gives back all of those that a codec
// or a connection takes, so none of them may be too small for that.
func TestPoolSmallest(t *testing.T) {
	p := &grpcmem.Pool{}
	if b := p.Get(1); mem.IsBelowBufferPoolingThreshold(cap(*b)) {
		t.Errorf("gRPC would not give a buffer of %d bytes back", cap(*b))
	}
}

// The codec writes what gRPC's own writes, and reads it, in one piece or several, from buffers that others
// have written before.
func TestCodec(t *testing.T) {
	p := &grpcmem.Pool{}
	c, own := grpcmem.NewCodec(p), encoding.GetCodecV2("proto")
	if c.Name() != own.Name() {
		t.Fatalf("name %q, want %q", c.Name(), own.Name())
	}
	for _, size := range []int{70_000, 0, 1, 1000, 2000, 16 << 10, 33 << 10, 70_000} {
		m := wrapperspb.Bytes(bytes.Repeat([]byte{byte(size%250 + 1)}, size))
		got, err := c.Marshal(m)
		want, ownErr := own.Marshal(m)
		if err != nil || ownErr != nil || !bytes.Equal(got.Materialize(), want.Materialize()) {
			t.Fatalf("%d bytes: written otherwise than by gRPC's codec: %v, %v", size, err, ownErr)
		}
		whole := want.Materialize()
		for _, data := range []mem.BufferSlice{got, {mem.SliceBuffer(whole[:len(whole)/2]), mem.SliceBuffer(whole[len(whole)/2:])}} {
			back := &wrapperspb.BytesValue{}
			if err := c.Unmarshal(data, back); err != nil || !proto.Equal(back, m) {
				t.Errorf("%d bytes: read %d, %v", size, len(back.GetValue()), err)
			}
		}
		got.Free()
	}
	if _, err := c.Marshal("no message"); err == nil {
		t.Error("a string was written")
	}
	if err := c.Unmarshal(nil, "no message"); err == nil {
		t.Error("a string was read")
	}
}
