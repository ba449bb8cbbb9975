package grpcapi

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/protobuf/proto"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// A block is sent as package proto writes its response, is not copied, and is done with when it is written.
func TestExportedBlock(t *testing.T) {
	codec := answerCodec{CodecV2: encoding.GetCodecV2(grpcproto.Name)}
	for _, size := range []int{1, 127, 128, 300_000} {
		block := bytes.Repeat([]byte{1, 2, 3}, size)[:size]
		done := 0
		data, err := codec.Marshal(&exportedBlock{block: block, done: func() { done++ }})
		if err != nil {
			t.Fatal(err)
		}
		want, err := proto.Marshal(&brokerv1.ExportQueueResponse{Block: block})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data.Materialize(), want) {
			t.Errorf("a block of %d bytes is encoded otherwise", size)
		}
		if last := data[len(data)-1].ReadOnlyData(); &last[0] != &block[0] {
			t.Error("the block is copied")
		}
		data.Ref() // as gRPC does for what it writes later
		if data.Free(); done > 0 {
			t.Error("the block is done with before it is written")
		}
		if data.Free(); size > 1<<10 && done != 1 { // small ones are not given back
			t.Errorf("the block is done with %d times", done)
		}
	}
}
