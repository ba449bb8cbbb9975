package grpcapi

import (
	"bytes"
	"testing"
	"unsafe"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// encode encodes a message.
func encode(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// requests returns messages with large bodies in every place where one can be.
func requests() []proto.Message {
	body := bytes.Repeat([]byte("body"), windowBytes)
	message := &brokerv1.Message{Vhost: "v", RoutingKey: "k", Body: body, Properties: &brokerv1.Properties{Headers: toTable(allKinds())}}
	small := &brokerv1.Message{RoutingKey: "k", Body: []byte("small")}
	return []proto.Message{
		&brokerv1.PublishOneRequest{Message: message},
		&brokerv1.PublishRequest{Sequence: 7, Message: message},
		&brokerv1.SettleAndPublishRequest{Outputs: []*brokerv1.Message{small, message, small, message}},
		&brokerv1.PublishOneRequest{},
	}
}

// A large body is decoded as by proto.Unmarshal, and without a copy of it.
func TestDecodeShared(t *testing.T) {
	for _, want := range requests() {
		data := encode(t, want)
		got := want.ProtoReflect().New().Interface()
		if err := (shared{above: windowBytes}).decode(data, got.ProtoReflect(), 0); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(got, want) {
			t.Errorf("%T became another one", want)
		}
		r, ok := got.(*brokerv1.PublishRequest)
		if !ok {
			continue
		}
		body := r.GetMessage().GetBody()
		first, from := uintptr(unsafe.Pointer(&body[0])), uintptr(unsafe.Pointer(&data[0]))
		if first < from || first >= from+uintptr(len(data)) {
			t.Error("the body was copied")
		}
		if cap(body) != len(body) {
			t.Error("who appends to the body writes over what follows it")
		}
	}
}

// What is nested deeply is left to proto.Unmarshal, which limits the depth.
func TestDecodeSharedDepth(t *testing.T) {
	value := &brokerv1.Value{Kind: &brokerv1.Value_Bytes{Bytes: make([]byte, 64)}}
	for range 20_000 {
		value = &brokerv1.Value{Kind: &brokerv1.Value_Array{Array: &brokerv1.Array{Values: []*brokerv1.Value{value}}}}
	}
	data := encode(t, value)
	if err := (shared{above: 8}).decode(data, new(brokerv1.Value).ProtoReflect(), 0); err == nil {
		t.Error("a message of 40,000 levels is decoded")
	}
}

// Whatever a client sends is decoded or refused as by proto.Unmarshal.
func FuzzDecodeShared(f *testing.F) {
	for _, m := range requests() {
		f.Add(encode(f, m))
	}
	f.Add(encode(f, &brokerv1.PublishRequest{Sequence: 1, Message: &brokerv1.Message{Body: []byte("more than eight bytes")}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, kind := range []proto.Message{&brokerv1.PublishRequest{}, &brokerv1.SettleAndPublishRequest{}, &brokerv1.Table{}} {
			is := func(decode func(m protoreflect.Message) error) (proto.Message, error) {
				m := kind.ProtoReflect().New()
				return m.Interface(), decode(m)
			}
			want, fault := is(func(m protoreflect.Message) error { return proto.Unmarshal(data, m.Interface()) })
			got, err := is(func(m protoreflect.Message) error { return shared{above: 8}.decode(data, m, 0) })
			if (err == nil) != (fault == nil) {
				t.Fatalf("%T: %v, by proto.Unmarshal %v", kind, err, fault)
			}
			if err == nil && !bytes.Equal(stable(t, got), stable(t, want)) {
				t.Fatalf("%v, by proto.Unmarshal %v", got, want)
			}
		}
	})
}

// stable encodes a message so that equal messages have equal bytes; for proto.Equal, NaN does not equal itself.
func stable(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
