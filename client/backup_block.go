package client

import (
	"encoding/binary"
	"io"
	"slices"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// keptBlockBytes limits the memory that exportedBlock uses again: a block of a large message may have more.
const keptBlockBytes = 1 << 20

// exportedBlock receives ExportQueueResponses one after another, into the same memory: a copy of a queue has many
// blocks, and each would be copied twice on its way to one of its own. One goroutine uses it.
type exportedBlock struct {
	block []byte // of the last response
}

// fieldBlock is the number of ExportQueueResponse.block.
const fieldBlock = 1

// read replaces the block by that of a response. One that nodes of this build do not write goes to package proto.
func (x *exportedBlock) read(data mem.BufferSlice, codec encoding.CodecV2) error {
	r := data.Reader()
	defer func() { _ = r.Close() }() // it always returns nil
	tag, err := binary.ReadUvarint(r)
	length := uint64(0)
	if err == nil {
		length, err = binary.ReadUvarint(r)
	}
	if err != nil || tag != protowire.EncodeTag(fieldBlock, protowire.BytesType) || length != uint64(r.Remaining()) {
		var m brokerv1.ExportQueueResponse
		err := codec.Unmarshal(data, &m)
		x.block = m.GetBlock()
		return err
	}
	if cap(x.block) > keptBlockBytes {
		x.block = nil
	}
	x.block = slices.Grow(x.block[:0], int(length))[:length]
	_, err = io.ReadFull(r, x.block)
	return err
}

// blockCodec reads exportedBlocks, and leaves everything else to package proto. gRPC knows it as "proto": the bytes are
// that.
type blockCodec struct{ encoding.CodecV2 }

// newBlockCodec returns a codec; it keeps no state.
func newBlockCodec() blockCodec { return blockCodec{encoding.GetCodecV2(proto.Name)} }

// Unmarshal implements encoding.CodecV2.
func (c blockCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if x, is := v.(*exportedBlock); is {
		return x.read(data, c.CodecV2)
	}
	return c.CodecV2.Unmarshal(data, v)
}
