package grpcapi

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/broker"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// publishRequests returns requests with everything that one may have.
func publishRequests() []*brokerv1.PublishRequest {
	text, mode := "text", uint32(2)
	full := &brokerv1.Message{
		Vhost: "v", Exchange: "e", RoutingKey: "k", Body: []byte("body"), Mandatory: true, DeliverAtMs: 5, DelayMs: -1,
		Properties: &brokerv1.Properties{ContentType: &text, DeliveryMode: &mode, Headers: toTable(allKinds()), Raw: map[string][]byte{"app_id": {0xff}}},
	}
	raw := &brokerv1.Message{RoutingKey: "k", RawRoutingKey: []byte{0xff, 'k'}}
	few := uint32(3)
	return []*brokerv1.PublishRequest{
		{},
		{Producer: make([]byte, 16), Batches: true},
		{Sequence: 1, Message: &brokerv1.Message{}},
		{Sequence: 1 << 63, Message: full},
		{Sequence: 2, Message: raw, Producer: []byte("short")},
		{Sequence: 2, Message: &brokerv1.Message{Properties: &brokerv1.Properties{DeliveryMode: &few}}},
		{Sequence: 2, Message: raw, More: []*brokerv1.PublishRequest{{Sequence: 3, Message: full}, {Sequence: 4, Message: raw}, {}, {Sequence: 9}}},
	}
}

// decoded is what a request says.
type decoded struct {
	producer  []byte
	batches   bool
	sequences []uint64
	there     []bool
	messages  []broker.Publish
	invalid   []string
	refused   bool // by streams, if not for its encoding
}

// add adds a message.
func (d *decoded) add(sequence uint64, there bool, m broker.Publish, invalid error) {
	if m.Body = bytes.Clone(m.Body); len(m.Body) == 0 {
		m.Body = nil
	}
	text := ""
	if invalid != nil {
		m, text = broker.Publish{}, invalid.Error()
	}
	d.sequences, d.there, d.messages, d.invalid = append(d.sequences, sequence), append(d.there, there), append(d.messages, m), append(d.invalid, text)
}

// decodedByHand reads a request as streams do.
func decodedByHand(f *publishFrame, data []byte) (d decoded, err error) {
	defer f.release()
	if err := f.read(mem.BufferSlice{mem.SliceBuffer(bytes.Clone(data))}, nil); err != nil {
		return d, err
	}
	d.producer, d.batches = bytes.Clone(f.producer), f.batches
	d.refused = f.further > 0 || slices.ContainsFunc(f.more, func(n numbered) bool { return n.other })
	for i := range f.count() {
		n := f.at(i)
		var m broker.Publish
		broken, invalid := f.publish(&m, n)
		if broken != nil {
			return d, broken
		}
		d.add(n.sequence, n.there, m, invalid)
	}
	return d, nil
}

// decodedByProto reads it by the generated types.
func decodedByProto(data []byte) (d decoded, err error) {
	var r brokerv1.PublishRequest
	if err := proto.Unmarshal(data, &r); err != nil {
		return d, err
	}
	d.producer, d.batches = r.GetProducer(), r.GetBatches()
	for _, n := range append([]*brokerv1.PublishRequest{&r}, r.GetMore()...) {
		var m broker.Publish
		invalid := setPublish(&m, n.GetMessage())
		d.add(n.GetSequence(), n.GetMessage() != nil, m, invalid)
	}
	return d, nil
}

func TestPublishFrame(t *testing.T) {
	var f publishFrame
	for _, r := range publishRequests() {
		data := encode(t, r)
		got, err := decodedByHand(&f, data)
		want, fault := decodedByProto(data)
		if err != nil || fault != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v:\n%+v, %v,\nby protobuf\n%+v, %v", r, got, err, want, fault)
		}
	}
}

// Fields that come twice are merged, as protobuf wants it.
func TestPublishFrameMerges(t *testing.T) {
	text := "text"
	first := encode(t, &brokerv1.PublishRequest{Sequence: 1, Message: &brokerv1.Message{RoutingKey: "a", Exchange: "e", Properties: &brokerv1.Properties{AppId: &text}}})
	second := encode(t, &brokerv1.PublishRequest{Sequence: 2, Message: &brokerv1.Message{RoutingKey: "b", Properties: &brokerv1.Properties{MessageId: &text}}})
	data := append(first, second...)
	var f publishFrame
	got, err := decodedByHand(&f, data)
	want, fault := decodedByProto(data)
	if err != nil || fault != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, by protobuf %+v, %v", got, err, want, fault)
	}
	if m := got.messages[0]; got.sequences[0] != 2 || m.RoutingKey != "b" || m.Exchange != "e" || m.AppID == "" || m.MessageID == "" {
		t.Errorf("%+v", got)
	}
}

// What one message had is not in the next.
func TestPublishFrameForgets(t *testing.T) {
	var f publishFrame
	all := publishRequests()
	if _, err := decodedByHand(&f, encode(t, all[3])); err != nil {
		t.Fatal(err)
	}
	got, err := decodedByHand(&f, encode(t, all[2]))
	want := decoded{sequences: []uint64{1}, there: []bool{true}, messages: []broker.Publish{{VHost: broker.DefaultVHost}}, invalid: []string{""}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

// A message in a hundred thousand pieces is put together in time that grows with its size alone, and an endless list of
// messages takes no memory.
func TestPublishFrameHostile(t *testing.T) {
	mandatory := []byte{2<<3 | 2, 2, 6 << 3, 1}
	pieces := bytes.Repeat(mandatory, 100_000)
	var f publishFrame
	got, err := decodedByHand(&f, pieces)
	if err != nil || !got.messages[0].Mandatory {
		t.Errorf("%+v, %v", got, err)
	}
	if n := testing.AllocsPerRun(3, func() { _, _ = decodedByHand(&f, pieces) }); n > 200 {
		t.Errorf("%v allocations for %d pieces", n, len(pieces)/len(mandatory))
	}
	empty := bytes.Repeat([]byte{5<<3 | 2, 0}, 1_000_000)
	if err := f.read(mem.BufferSlice{mem.SliceBuffer(empty)}, nil); err != nil {
		t.Fatal(err)
	}
	if f.count()+f.further != 1_000_001 || cap(f.more) > 2*maxBatch {
		t.Errorf("%d messages, %d more, room for %d", f.count(), f.further, cap(f.more))
	}
	f.release()
	if f.count() != 1 || f.further != 0 || f.bytes != 0 {
		t.Errorf("after its release it has %d messages and %d more, %d bytes", f.count(), f.further, f.bytes)
	}
}

func TestPublishFrameUnreadable(t *testing.T) {
	bad := map[string][]byte{
		"cut off":           encode(t, publishRequests()[3])[:9],
		"no field":          {0},
		"text is not UTF-8": protowire.AppendBytes([]byte{2<<3 | 2}, []byte{3<<3 | 2, 1, 0xff}),
		"in two pieces":     {2<<3 | 2, 1, 6 << 3, 2<<3 | 2, 1, 1},
		"after two pieces":  {2<<3 | 2, 2, 6 << 3, 1, 2<<3 | 2, 0, 2<<3 | 2, 1, 6 << 3, 2<<3 | 2, 1, 1},
		"within more":       protowire.AppendBytes([]byte{5<<3 | 2}, []byte{2<<3 | 2, 9}),
	}
	for what, data := range bad {
		var f publishFrame
		if d, err := decodedByHand(&f, data); err == nil {
			t.Errorf("%s: %+v", what, d)
		}
	}
}

// A stream that uses ever new names, or long ones, keeps few.
func TestNameCache(t *testing.T) {
	var n nameCache
	for i := range 10 * maxNames {
		if name := strings.Repeat("x", i); n.of([]byte(name)) != name {
			t.Fatal(i)
		}
	}
	bytes := 0
	for name := range n.known {
		bytes += len(name)
	}
	if len(n.known) > maxNames || bytes > maxNames*maxNameBytes {
		t.Errorf("%d names of %d bytes", len(n.known), bytes)
	}
}

// Whatever a client sends is read or refused as by protobuf.
func FuzzPublishFrame(f *testing.F) {
	for _, r := range publishRequests() {
		f.Add(encode(f, r))
	}
	for _, form := range slices.Concat(wireTypes(), wireRepeats(), wireRaw()) { // each seed costs time
		f.Add(form.data)
	}
	frame := publishFrame{}
	f.Fuzz(func(t *testing.T, data []byte) {
		if different, _ := asProtobuf(&frame, data); different != "" {
			t.Fatal(different)
		}
	})
}

// samePublishes compares what two requests say; no producer and an empty one are the same. Floating-point values count
// by their bits.
func samePublishes(a, b *decoded) bool {
	x, y := *a, *b
	x.producer, y.producer = nil, nil
	return bytes.Equal(a.producer, b.producer) && reflect.DeepEqual(x, y)
}
