package message_test

import (
	"math"
	"testing"

	"github.com/quorate/quorate/message"
)

// C-2, EX-9, Q-13: integers of any width are one class, floats another, all else its own.
func TestEqualClass(t *testing.T) {
	type table = message.Table
	field := func(name string, v message.Value) message.Field { return message.Field{Name: name, Value: v} }
	for _, c := range []struct {
		a, b message.Value
		want bool
	}{
		{message.Int8(5), message.Uint64(5), true},
		{message.Int16(-1), message.Int64(-1), true},
		{message.Int64(-1), message.Uint64(math.MaxUint64), false},
		{message.Uint8(5), message.Int8(6), false},
		{message.Int32(1), message.String("1"), false},
		{message.Int32(1), message.Bool(true), false},
		{message.Int32(1), message.Float64(1), false},
		{message.Int32(1), message.Timestamp(1), false},
		{message.Int32(1), message.Decimal(0, 1), false},
		{message.Float32(1.5), message.Float64(1.5), true},
		{message.Float64(math.NaN()), message.Float32(float32(math.NaN())), true},
		{message.Float64(0), message.String(""), false},
		{message.Decimal(1, 10), message.Decimal(2, 100), false},
		{message.String("a"), message.String("a"), true},
		{message.String("a"), message.Bytes([]byte("a")), false},
		{message.Null(), message.Null(), true},
		{message.Null(), message.Bool(false), false},
		{message.Array(message.Int8(1)), message.Array(message.Int64(1)), true},
		{message.Array(message.Int8(1)), message.Array(message.Int8(1), message.Null()), false},
		{
			message.TableValue(table{field("a", message.Int8(1)), field("b", message.Null())}),
			message.TableValue(table{field("b", message.Null()), field("a", message.Int32(1))}), true,
		},
		{message.TableValue(table{field("a", message.Int8(1))}), message.TableValue(nil), false},
		{message.TableValue(nil), message.Array(), false},
	} {
		if got := c.a.EqualClass(c.b); got != c.want {
			t.Errorf("%v %v EqualClass %v %v = %v", c.a.Kind(), c.a, c.b.Kind(), c.b, got)
		}
		if got := c.b.EqualClass(c.a); got != c.want {
			t.Errorf("%v %v EqualClass %v %v = %v", c.b.Kind(), c.b, c.a.Kind(), c.a, got)
		}
	}
}

func TestValueReads(t *testing.T) {
	if n, ok := message.Uint64(math.MaxUint64).AsInt(); ok {
		t.Errorf("the highest uint64 read as int64 %d", n)
	}
	if n, ok := message.Int8(-8).AsInt(); !ok || n != -8 {
		t.Errorf("int8 -8 read as %d, %v", n, ok)
	}
	if n, ok := message.Int8(-8).AsUint(); ok {
		t.Errorf("int8 -8 read as uint64 %d", n)
	}
	if s, ok := message.Bytes([]byte("x")).AsString(); ok {
		t.Errorf("bytes read as string %q", s)
	}
	if scale, n, ok := message.Decimal(2, -314).AsDecimal(); !ok || scale != 2 || n != -314 {
		t.Errorf("decimal read as %d, %d, %v", scale, n, ok)
	}
	want := `{null=null true=true false=false int8=-128 uint8=255 int16=-32768 uint16=65535 int32=-2147483648 ` +
		`uint32=4294967295 int64=-9223372036854775808 uint64=18446744073709551615 float32=1.5 float64=-Inf ` +
		`decimal=-314e-2 string="grüß" bytes="\x00\xff" timestamp=1700000000 table={inner=1} empty table={} ` +
		`array=["a" null []]}`
	if got := everyValue().String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTableDoesNotChangeOthers(t *testing.T) {
	orig := message.Table{{Name: "a", Value: message.Int8(1)}, {Name: "b", Value: message.Int8(2)}}
	clone := orig.Clone()
	clone.Set("a", message.Int8(9))
	clone.Set("c", message.Int8(3))
	if !clone.Delete("b") || clone.Delete("b") {
		t.Error("Delete did not say what it found")
	}
	without := orig.Without("a", "x")
	merged := orig.Merged(message.Table{{Name: "a", Value: message.String("over")}})
	for got, want := range map[string]string{
		orig.String():    "{a=1 b=2}",
		clone.String():   "{a=9 c=3}",
		without.String(): "{b=2}",
		merged.String():  `{b=2 a="over"}`,
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestValueReadsOfOtherKinds(t *testing.T) {
	if b, ok := message.Bool(true).AsBool(); !b || !ok {
		t.Error("true is not true")
	}
	if s, ok := message.Bytes([]byte("x")).AsBytes(); !ok || s != "x" {
		t.Errorf("bytes read as %q, %v", s, ok)
	}
	if n, ok := message.Timestamp(7).AsUint(); !ok || n != 7 {
		t.Errorf("timestamp read as %d, %v", n, ok)
	}
	for _, f := range everyValue() {
		v := f.Value
		_, isBool := v.AsBool()
		_, isInt := v.AsInt()
		_, isFloat := v.AsFloat()
		_, _, isDecimal := v.AsDecimal()
		_, isString := v.AsString()
		_, isBytes := v.AsBytes()
		_, isTable := v.AsTable()
		_, isArray := v.AsArray()
		kinds := 0
		for _, is := range []bool{v.IsNull(), isBool, isInt, isFloat, isDecimal, isString, isBytes, isTable, isArray} {
			if is {
				kinds++
			}
		}
		// A timestamp is read as AsUint only, and so is an uint64 beyond int64.
		if want := f.Name != "timestamp" && f.Name != "uint64"; (kinds == 1) != want || kinds > 1 {
			t.Errorf("%s is read as %d kinds", f.Name, kinds)
		}
	}
}

// MSG-9, DL-31.
func TestKeys(t *testing.T) {
	m := full()
	if m.PrimaryKey() != "order.new" || len(m.VisibleKeys()) != 2 {
		t.Errorf("primary %q, visible %q", m.PrimaryKey(), m.VisibleKeys())
	}
	if none := (&message.Message{}); none.PrimaryKey() != "" || len(none.VisibleKeys()) != 0 {
		t.Error("a message without keys has some")
	}
}
