package grpcapi

import (
	"runtime"
	"testing"
	"time"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/internal/incoming"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// answered takes the room of an answer and encodes it, as a call does.
func answered(t *testing.T, b *budget, conn *countedConn) mem.BufferSlice {
	t.Helper()
	m := &brokerv1.GetResponse{Delivery: &brokerv1.Delivery{Body: make([]byte, 2*windowBytes)}}
	a := &asked{conn: conn, user: "u", bytes: 16 * windowBytes}
	if _, err := b.acquire(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	r := &room{b: b, a: a}
	if !conn.keep(r) {
		t.Fatal("the connection is closed")
	}
	size := int64(proto.Size(m))
	if b.resize(a, size); b.node.Used() != size {
		t.Errorf("%d bytes are taken, want %d", b.node.Used(), size)
	}
	data, err := answerCodec{CodecV2: encoding.GetCodecV2(grpcproto.Name)}.Marshal(&largeAnswer{message: m, room: r})
	if err != nil {
		t.Fatal(err)
	}
	var again brokerv1.GetResponse
	if err := proto.Unmarshal(data.Materialize(), &again); err != nil || !proto.Equal(m, &again) {
		t.Errorf("the answer is encoded as another one: %v", err)
	}
	return data
}

// nothingIsTaken waits until a budget has all of its room.
func nothingIsTaken(t *testing.T, b *budget, conn *countedConn) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); b.node.Used() != 0; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are still taken", b.node.Used())
		}
		runtime.Gosched()
	}
	if used, waiting := b.figures(); used != 0 || waiting != 0 || len(b.users)+len(b.conns)+len(conn.rooms) > 0 {
		t.Errorf("%d bytes, %d wait, %v, %v, %d rooms", used, waiting, b.users, b.conns, len(conn.rooms))
	}
}

// An answer has its room until gRPC has freed its bytes, as often as it has referred to them.
func TestAnswerIsWritten(t *testing.T) {
	b, conn := newAnswers(incoming.New(0)), &countedConn{}
	data := answered(t, b, conn)
	data.Ref()
	data.Free()
	if b.node.Used() == 0 {
		t.Error("the room is given back while gRPC needs the bytes")
	}
	data.Free()
	if b.node.Used() != 0 {
		t.Errorf("%d bytes are taken by what is written", b.node.Used())
	}
	nothingIsTaken(t, b, conn)
}

// An answer that gRPC drops and does not free gives its room back when the collector finds it.
func TestAnswerIsDropped(t *testing.T) {
	b, conn := newAnswers(incoming.New(0)), &countedConn{}
	data := answered(t, b, conn)
	if b.node.Used() == 0 {
		t.Error("it has no room")
	}
	runtime.KeepAlive(data)
	nothingIsTaken(t, b, conn)
}

// A connection that is closed gives the rooms of its answers back, and takes no more.
func TestAnswersOfClosedConnection(t *testing.T) {
	b, conn := newAnswers(incoming.New(0)), &countedConn{}
	data := answered(t, b, conn)
	conn.freeRooms()
	if b.node.Used() != 0 {
		t.Errorf("%d bytes are taken by a closed connection", b.node.Used())
	}
	data.Free()
	nothingIsTaken(t, b, conn)
	if conn.keep(&room{}) {
		t.Error("a closed connection keeps a room")
	}
}

// What cannot be encoded takes no room.
func TestAnswerThatCannotBeEncoded(t *testing.T) {
	b, conn := newAnswers(incoming.New(0)), &countedConn{}
	a := &asked{conn: conn, bytes: 1}
	_, err := b.acquire(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&largeAnswer{message: &brokerv1.GetResponse{SettleToken: "\xff"}, room: &room{b: b, a: a}}).encode()
	if err == nil {
		t.Error("it is encoded")
	}
	nothingIsTaken(t, b, conn)
}
