package grpcapi

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/quorate/quorate/broker"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Fields as they are encoded. none is a field that no message of a request has.
const none protowire.Number = 100

func tag(number protowire.Number, kind protowire.Type) []byte {
	return protowire.AppendTag(nil, number, kind)
}

func varint(number protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(tag(number, protowire.VarintType), v)
}

// nested is a field with a length: a message of fields, or a text.
func nested(number protowire.Number, content ...[]byte) []byte {
	return protowire.AppendBytes(tag(number, protowire.BytesType), slices.Concat(content...))
}

func text(number protowire.Number, s string) []byte { return nested(number, []byte(s)) }

// group is a group, which messages of today do not have.
func group(number protowire.Number, content ...[]byte) []byte {
	return slices.Concat(tag(number, protowire.StartGroupType), slices.Concat(content...), tag(number, protowire.EndGroupType))
}

// wireForm is a request as no client of ours writes it.
type wireForm struct {
	name string
	data []byte
	ok   bool // it can be read
}

// anywhere puts fields into each place of a request in which they are decoded: beside its own fields, in its message,
// in each of two pieces of it, in a message of the field more, and in what package proto decodes.
func anywhere(name string, ok bool, b []byte) []wireForm {
	message := text(3, "k")
	return []wireForm{
		{name + " in a request", b, ok},
		{name + " after a message", slices.Concat(varint(1, 1), nested(2, message), b), ok},
		{name + " in a message", slices.Concat(nested(2, message, b), varint(1, 1)), ok},
		{name + " in the first piece", slices.Concat(nested(2, b), nested(2, message)), ok},
		{name + " in the last piece", slices.Concat(nested(2, message), nested(2, message), nested(2, b)), ok},
		{name + " in a further message", slices.Concat(nested(2, message), nested(5, nested(2, message, b))), ok},
		{name + " in properties", nested(2, nested(4, text(1, "type"), b)), ok},
		{name + " in a header", nested(2, nested(4, nested(3, nested(1, text(1, "name"), nested(2, varint(1, 1), b))))), ok},
		{name + " in a raw property", nested(2, nested(4, nested(14, text(1, "app_id"), b, text(2, "\xff")))), ok},
	}
}

// wireForms are the ways in which an encoding may differ from what clients write.
func wireForms() []wireForm {
	const largest = protowire.MaxValidNumber
	return slices.Concat(
		anywhere("no field", false, []byte{0}),
		anywhere("number 0 in two bytes", false, []byte{0x80, 0}),
		anywhere("number 0 in a group", false, group(none, []byte{0, 0})),
		anywhere("the largest number", true, varint(largest, 1)),
		anywhere("a number too large", false, varint(largest+1, 1)),
		anywhere("a number too large, with a length", false, text(largest+1, "x")),
		anywhere("a group's number too large", false, group(largest+1)),
		anywhere("a number too large in a group", true, group(none, varint(largest+1, 1))), // package proto skips it
		anywhere("the largest number of 32 bits", false, varint(1<<31-1, 1)),
		anywhere("a number of more than 32 bits", false, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 1, 0}),
		anywhere("a tag that overflows", false, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2}),
		anywhere("a tag that ends", false, []byte{0x80}),
		anywhere("a tag in ten bytes", true, []byte{0xa0, 0x86, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 1}), // of none
		anywhere("a number that overflows", false,
			append(tag(none, protowire.VarintType), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2)),
		anywhere("a number that ends", false, append(tag(none, protowire.VarintType), 0x80)),
		anywhere("32 bits", true, protowire.AppendFixed32(tag(none, protowire.Fixed32Type), 1)),
		anywhere("64 bits", true, protowire.AppendFixed64(tag(none, protowire.Fixed64Type), 1)),
		anywhere("32 bits that end", false, append(tag(none, protowire.Fixed32Type), 1, 2, 3)),
		anywhere("64 bits that end", false, append(tag(none, protowire.Fixed64Type), 1, 2, 3, 4)),
		anywhere("a length beyond the end", false, append(tag(none, protowire.BytesType), 0x7f)),
		anywhere("a length that overflows", false,
			append(tag(none, protowire.BytesType), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1)),
		anywhere("a type that is reserved", false, tag(none, 6)),
		anywhere("the other type that is reserved", false, tag(none, 7)),
		anywhere("an empty group", true, group(none)),
		anywhere("groups in a group", true, group(none, group(1, group(2, text(3, "x")), varint(4, 1)))),
		anywhere("a group without end", false, tag(none, protowire.StartGroupType)),
		anywhere("a group's end alone", false, tag(none, protowire.EndGroupType)),
		anywhere("a group with another's end", false, slices.Concat(tag(none, protowire.StartGroupType), tag(none+1, protowire.EndGroupType))),
		anywhere("groups that overlap", false, slices.Concat(tag(none, protowire.StartGroupType), group(none+1, tag(none, protowire.EndGroupType)))),
		wireTypes(), wireRepeats(), wireTexts(), wireRaw(),
	)
}

// wireTypes have known fields with a type that is not theirs, and values in more bytes than they need.
func wireTypes() []wireForm {
	fixed := func(number protowire.Number) []byte {
		return slices.Concat(protowire.AppendFixed32(tag(number, protowire.Fixed32Type), 1), protowire.AppendFixed64(tag(number, protowire.Fixed64Type), 1))
	}
	var other []byte
	for number := protowire.Number(1); number <= 14; number++ {
		other = slices.Concat(other, fixed(number), group(number))
	}
	return []wireForm{
		{"types that no field has, in a request", other, true},
		{"types that no field has, in a message", nested(2, other), true},
		{"types that no field has, in properties", nested(2, nested(4, other)), true},
		{"types of others in a request", slices.Concat(text(1, "x"), varint(2, 1), varint(3, 1), text(4, "x"), varint(5, 1)), true},
		{"types of others in a message", nested(2, varint(1, 1), varint(2, 1), varint(3, 1), varint(4, 1), varint(5, 1),
			text(6, "x"), text(7, "x"), text(8, "x"), varint(9, 1)), true},
		{"a message without length", []byte{2<<3 | 2}, false},
		{"a sequence without value", []byte{1 << 3}, false},
		{"a long tag of a sequence", []byte{1<<3 | 0x80, 0x80, 0, 7}, true},
		{"a long sequence", []byte{1 << 3, 0x87, 0x80, 0x80, 0}, true},
		{"the longest sequence", []byte{1 << 3, 0x87, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0}, true},
		{"a length in more bytes", []byte{2<<3 | 2, 0x82, 0x80, 0, 6 << 3, 1}, true},
		{"large truths", slices.Concat(varint(4, 1<<63), nested(2, varint(6, 2))), true},
		{"a truth of zero in two bytes", slices.Concat([]byte{4 << 3, 0x80, 0}, nested(2, []byte{6 << 3, 0x80, 0})), true},
		{"large times", nested(2, varint(7, 1<<63), varint(8, 1<<64-1)), true},
		{"numbers above their 32 bits", nested(2, nested(4, varint(4, 1<<32+2), varint(5, 1<<32+9))), true},
	}
}

// wireRepeats have fields more than once, which replace, merge or add.
func wireRepeats() []wireForm {
	header := func(value ...[]byte) []byte {
		return nested(4, nested(3, nested(1, text(1, "h"), nested(2, value...))))
	}
	twice := func(field []byte) []byte { return slices.Concat(field, field) }
	return []wireForm{
		{
			"sequences and producers",
			slices.Concat(varint(1, 1), text(3, "first"), varint(4, 1), varint(1, 2), text(3, "second"), varint(4, 0)), true,
		},
		{"a producer that is taken back", slices.Concat(text(3, "first"), text(3, "")), true},
		{"texts", nested(2, text(1, "a"), text(2, "a"), text(3, "a"), text(5, "a"), text(1, "b"), text(2, "b"), text(3, "b"),
			text(5, "b"), text(2, ""), text(5, "")), true},
		{"a raw routing key that is taken back", nested(2, text(9, "raw"), text(3, "k"), text(9, "")), true},
		{"empty pieces", slices.Concat(nested(2), nested(2), nested(2, varint(6, 1)), nested(2)), true},
		{"pieces, each broken", []byte{2<<3 | 2, 1, 6 << 3, 2<<3 | 2, 1, 1}, false},
		{"pieces, the first broken", slices.Concat([]byte{2<<3 | 2, 1, 6 << 3}, nested(2)), false},
		{"pieces within more", nested(5, varint(1, 1), nested(2, text(3, "a")), varint(1, 2), nested(2, varint(6, 1)), nested(2, text(3, "b"))), true},
		{"broken pieces within more", nested(5, []byte{2<<3 | 2, 1, 6 << 3, 2<<3 | 2, 1, 1}), false},
		{"empty more", slices.Concat(nested(5), nested(5)), true},
		{"as many as there may be", bytes.Repeat(nested(5, varint(1, 1), nested(2)), maxBatch), true},
		{
			"more between pieces",
			slices.Concat(nested(2, text(3, "a")), nested(5, nested(2, text(3, "b"))), nested(2, varint(6, 1)), nested(5, nested(2, text(3, "c")))), true,
		},
		{"empty properties", nested(2, nested(4)), true},
		{"headers in two properties", nested(2, twice(header(varint(3, 1)))), true},
		{"headers in two pieces", twice(nested(2, header(varint(3, 1)))), true},
		{"properties that are broken in one piece", slices.Concat(nested(2, nested(4, []byte{1<<3 | 2})), nested(2, nested(4, text(1, "x")))), false},
		{
			"a value of several kinds",
			nested(2, header(varint(1, 1), text(14, "x"), nested(17, nested(1, text(1, "in"), nested(2, varint(2, 1)))), varint(3, 7))), true,
		},
		{"a value that is a table twice", nested(2, header(twice(nested(17, nested(1, text(1, "in"), nested(2, varint(2, 1))))))), true},
		{
			"a table that became another kind and a table again",
			nested(2, header(nested(17, nested(1, text(1, "in"), nested(2, varint(2, 1)))), varint(1, 1), nested(17))), true,
		},
		{"a value without kind", nested(2, header()), true},
		{"a field without value", nested(2, nested(4, nested(3, nested(1, text(1, "h"))))), true},
		{"values that do not equal themselves", nested(2, header(protowire.AppendFixed32(tag(11, protowire.Fixed32Type), 0x7fa00001)),
			header(protowire.AppendFixed64(tag(12, protowire.Fixed64Type), 0x7ff4000000000001))), true},
	}
}

// wireTexts have texts that are not UTF-8 in each place.
func wireTexts() []wireForm {
	const broken = "\xff"
	header := func(field ...[]byte) []byte { return nested(2, nested(4, nested(3, nested(1, field...)))) }
	forms := []wireForm{
		{"a producer and a body that are not UTF-8", slices.Concat(text(3, broken), nested(2, text(5, broken))), true},
		{"a raw routing key that is not UTF-8", nested(2, text(3, "k"), text(9, broken)), true},
		{"a broken text that another replaces", nested(2, text(3, broken), text(3, "k")), false},
		{"a broken text in the first piece", slices.Concat(nested(2, text(3, broken)), nested(2, text(3, "k"))), false},
		{"a broken text within more", nested(5, nested(2, text(3, broken))), false},
		{"half a rune", nested(2, text(3, "\xe2\x82")), false},
		{"a surrogate", nested(2, text(3, "\xed\xa0\x80")), false},
		{"a zero byte", nested(2, text(3, "\x00")), true},
		{"a name of a header", header(text(1, broken), nested(2, varint(1, 1))), false},
		{"a raw name of a header", header(text(3, broken), nested(2, varint(1, 1))), true},
		{"a header's text", header(text(1, "h"), nested(2, text(14, broken))), false},
		{"a header's bytes", header(text(1, "h"), nested(2, text(15, broken))), true},
		{"a header's raw text", header(text(1, "h"), nested(2, text(19, broken))), true},
	}
	for number := protowire.Number(1); number <= 3; number++ {
		forms = append(forms, wireForm{"a broken text of a message", nested(2, text(number, broken)), false})
	}
	for _, number := range []protowire.Number{1, 2, 6, 7, 8, 9, 11, 12, 13} {
		forms = append(forms, wireForm{"a broken property", nested(2, nested(4, text(number, broken))), false})
	}
	return forms
}

// wireRaw have entries of the map raw, each a message with a key and a value.
func wireRaw() []wireForm {
	raw := func(entries ...[]byte) []byte { return nested(2, nested(4, entries...)) }
	return []wireForm{
		{"an entry", raw(nested(14, text(1, "app_id"), text(2, "\xff"))), true},
		{"an empty entry", raw(nested(14)), true},
		{"an entry without key", raw(nested(14, text(2, "x"))), true},
		{"an entry without value", raw(nested(14, text(1, "app_id"))), true},
		{"an entry, its value first", raw(nested(14, text(2, "x"), text(1, "app_id"))), true},
		{"an entry with two keys", raw(nested(14, text(1, "none"), text(1, "app_id"), text(2, "x"), text(2, "y"))), true},
		{"an entry of other types", raw(nested(14, varint(1, 1), varint(2, 1))), true},
		{"entries with the same key", raw(nested(14, text(1, "app_id"), text(2, "x")), nested(14, text(1, "app_id"), text(2, "y"))), true},
		{"a key that is not UTF-8", raw(nested(14, text(1, "\xff"))), false},
		{"a key that is replaced and is not UTF-8", raw(nested(14, text(1, "\xff"), text(1, "app_id"))), false},
		{"a text and its raw form", raw(text(13, "x"), nested(14, text(1, "app_id"), text(2, "\xff"))), true},
		{"keys that are no texts", raw(nested(14, text(1, "a")), nested(14, text(1, "b")), nested(14, text(1, "c"))), true},
		{"entries in two pieces", slices.Concat(raw(nested(14, text(1, "app_id"), text(2, "x"))), raw(nested(14, text(1, "type"), text(2, "y")))), true},
		{"a wrong mode after a wrong key", raw(nested(14, text(1, "a")), varint(4, 9)), true},
	}
}

// asProtobuf reads a request by hand and by protobuf, and returns what differs. Nothing does in a request that streams
// refuse for another reason than its encoding.
func asProtobuf(f *publishFrame, data []byte) (different string, err error) {
	want, fault := decodedByProto(data)
	got, err := decodedByHand(f, data)
	switch {
	case got.refused:
		return "", err
	case (err == nil) != (fault == nil):
		return fmt.Sprintf("by hand %v, by protobuf %v", err, fault), err
	case err == nil && !samePublishes(&got, &want):
		return fmt.Sprintf("by hand\n%+v\nby protobuf\n%+v", got, want), err
	}
	return "", err
}

// Each unusual form is read or refused as by protobuf, whatever was read before.
func TestPublishFrameForms(t *testing.T) {
	var f publishFrame
	for _, form := range wireForms() {
		for range 3 { // the order of a map is another one each time
			different, err := asProtobuf(&f, form.data)
			if different != "" || (err == nil) != form.ok {
				t.Errorf("%s, %x: %v, want it readable: %v; %s", form.name, form.data, err, form.ok, different)
			}
		}
	}
}

// Messages are nested as deep as protobuf allows for the whole request, and no deeper.
func TestPublishFrameDepth(t *testing.T) {
	const limit = protowire.DefaultRecursionLimit
	for _, outer := range [][]protowire.Number{{2}, {5, 2}} {
		for levels := limit - 2; levels <= limit+2; levels++ { // the request is one
			numbers := append(slices.Clone(outer), 4, 3, 1, 2) // of properties, headers, a field, its value
			for len(numbers) < levels-1 {
				numbers = append(numbers, 18, 1) // of an array and its value
			}
			var data []byte // from the inside out, so its bytes are in reverse
			for _, number := range slices.Backward(numbers[:levels-1]) {
				head := protowire.AppendVarint(tag(number, protowire.BytesType), uint64(len(data)))
				slices.Reverse(head)
				data = append(data, head...)
			}
			slices.Reverse(data)
			var f publishFrame
			if different, err := asProtobuf(&f, data); different != "" || (err == nil) != (levels <= limit) {
				t.Errorf("%d levels: %v; %s", levels, err, different)
			}
		}
	}
}

// Of several wrong names the error always has the same one.
func TestRawNames(t *testing.T) {
	p := &brokerv1.Properties{Raw: map[string][]byte{"b": nil, "a": nil, "app_id": nil, "c": nil, "d": nil}}
	for range 100 {
		if err := setPublishProperties(&broker.Publish{}, p); err == nil || !strings.Contains(err.Error(), `"a"`) {
			t.Fatal(err)
		}
	}
}
