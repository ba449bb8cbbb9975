package grpcapi

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// exportedBlock is an ExportQueueResponse, for answerCodec. Its bytes are not copied, as there are many: gRPC has them
// until they are written, and then calls done. Where it forgets to, as for a stream that was reset just before, the
// collector has them.
type exportedBlock struct {
	block []byte
	done  func()
}

// fieldBlock is the number of ExportQueueResponse.block.
const fieldBlock = 1

// encode returns the response as package proto writes it.
func (b *exportedBlock) encode() mem.BufferSlice {
	head := protowire.AppendTag(nil, fieldBlock, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(len(b.block)))
	return mem.BufferSlice{mem.SliceBuffer(head), mem.NewBuffer(&b.block, b)}
}

// Get implements mem.BufferPool. gRPC takes no memory from a block.
func (b *exportedBlock) Get(length int) *[]byte {
	x := make([]byte, length)
	return &x
}

// Put implements mem.BufferPool: gRPC calls it when the block is written, or its stream is gone.
func (b *exportedBlock) Put(*[]byte) { b.done() }
