package client

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// pieces cuts bytes as gRPC does: into frames.
func pieces(b []byte, size int) (out mem.BufferSlice) {
	for ; len(b) > size; b = b[size:] {
		out = append(out, mem.SliceBuffer(b[:size]))
	}
	return append(out, mem.SliceBuffer(b))
}

// Blocks of all sizes arrive whole, one after the other, however the response is cut and whatever else it has.
func TestExportedBlock(t *testing.T) {
	t.Parallel()
	codec := newBlockCodec()
	var x exportedBlock
	for _, size := range []int{300_000, 0, 1, 127, 128, 16 << 10, 2 * keptBlockBytes, 5, 300_000} {
		want := bytes.Repeat([]byte{byte(size), 1, 2}, size/3+1)[:size]
		m := &brokerv1.ExportQueueResponse{Block: want}
		plain, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		newer := protowire.AppendTag(bytes.Clone(plain), 99, protowire.VarintType)
		newer = protowire.AppendVarint(newer, 7)
		older := protowire.AppendVarint(protowire.AppendTag(nil, 98, protowire.VarintType), 7)
		for name, response := range map[string][]byte{
			"as nodes write it": plain, "with a field behind": newer, "with a field in front": append(older, plain...),
		} {
			for _, piece := range []int{1 << 30, 16<<10 - 5, 3} {
				if err := codec.Unmarshal(pieces(response, piece), &x); err != nil || !bytes.Equal(x.block, want) {
					t.Errorf("%d bytes, %s, in pieces of %d: %d bytes, %v", size, name, piece, len(x.block), err)
				}
			}
		}
	}
	if err := codec.Unmarshal(pieces([]byte{0x0a, 5, 1}, 100), &x); err == nil {
		t.Error("a response that is cut off is read")
	}
	var m brokerv1.ExportQueueResponse
	if err := codec.Unmarshal(pieces([]byte{0x0a, 1, 7}, 100), &m); err != nil || !bytes.Equal(m.GetBlock(), []byte{7}) {
		t.Errorf("as a message: %v, %v", m.GetBlock(), err)
	}
}

// Blocks of the usual size are read into the same memory; that of a large one is not kept.
func TestExportedBlockMemory(t *testing.T) {
	codec := newBlockCodec()
	var x exportedBlock
	read := func(size int) {
		response, err := proto.Marshal(&brokerv1.ExportQueueResponse{Block: make([]byte, size)})
		if err == nil {
			err = codec.Unmarshal(pieces(response, 16<<10), &x)
		}
		if err != nil || len(x.block) != size {
			t.Fatalf("%d bytes: %d, %v", size, len(x.block), err)
		}
	}
	read(300_000)
	first := &x.block[0]
	if read(200_000); &x.block[0] != first {
		t.Error("each block has memory of its own")
	}
	read(2 * keptBlockBytes)
	if read(200_000); cap(x.block) > keptBlockBytes {
		t.Errorf("%d bytes are kept", cap(x.block))
	}
}
