package grpcapi

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/message"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// allKinds returns a table with values of every kind, at the edges of its
// range.
func allKinds() message.Table {
	inner := message.Table{{Name: "deep", Value: message.Array(message.TableValue(message.Table{{Name: "x", Value: message.Null()}}))}}
	return message.Table{
		{Name: "null", Value: message.Null()},
		{Name: "bool", Value: message.Bool(true)},
		{Name: "int8", Value: message.Int8(math.MinInt8)},
		{Name: "uint8", Value: message.Uint8(math.MaxUint8)},
		{Name: "int16", Value: message.Int16(math.MinInt16)},
		{Name: "uint16", Value: message.Uint16(math.MaxUint16)},
		{Name: "int32", Value: message.Int32(math.MinInt32)},
		{Name: "uint32", Value: message.Uint32(math.MaxUint32)},
		{Name: "int64", Value: message.Int64(math.MinInt64)},
		{Name: "uint64", Value: message.Uint64(math.MaxUint64)},
		{Name: "float32", Value: message.Float32(1.5)},
		{Name: "float64", Value: message.Float64(math.Inf(-1))},
		{Name: "decimal", Value: message.Decimal(255, math.MinInt32)},
		{Name: "string", Value: message.String("ü")},
		{Name: "empty string", Value: message.String("")},
		{Name: "bytes", Value: message.Bytes([]byte{0, 255})},
		{Name: "timestamp", Value: message.Timestamp(math.MaxUint64)},
		{Name: "table", Value: message.TableValue(inner)},
		{Name: "empty table", Value: message.TableValue(nil)},
		{Name: "array", Value: message.Array(message.Int8(1), message.String("a"), message.Array())},
	}
}

// wired returns what a client receives of a table.
func wired(t *testing.T, in *brokerv1.Table) *brokerv1.Table {
	t.Helper()
	b, err := proto.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out brokerv1.Table
	if err := proto.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

// AM-9: a table comes back with the same kinds and values.
func TestTableRoundTrip(t *testing.T) {
	in := allKinds()
	out, err := fromTable("headers", wired(t, toTable(in)))
	if err != nil || !message.TableValue(in).Equal(message.TableValue(out)) {
		t.Errorf("%v became %v, %v", in, out, err)
	}
	if toTable(nil) != nil {
		t.Error("an empty table is written")
	}
}

// AM-9: text that is not UTF-8 comes back as it was, and stays a string.
func TestTableNotUTF8(t *testing.T) {
	out, err := fromTable("headers", wired(t, toTable(message.Table{{Name: "a\xff", Value: message.String("b\xff")}})))
	if err != nil || len(out) != 1 || out[0].Name != "a\xff" || !out[0].Value.Equal(message.String("b\xff")) {
		t.Errorf("%v, %v", out, err)
	}
}

func TestTableRefused(t *testing.T) {
	one := func(v *brokerv1.Value) *brokerv1.Table {
		return &brokerv1.Table{Fields: []*brokerv1.Field{{Name: "f", Value: v}}}
	}
	deep := &brokerv1.Value{Kind: &brokerv1.Value_Void{Void: true}}
	for range message.MaxTableDepth {
		deep = &brokerv1.Value{Kind: &brokerv1.Value_Array{Array: &brokerv1.Array{Values: []*brokerv1.Value{deep}}}}
	}
	for _, row := range []struct {
		table *brokerv1.Table
		want  string
	}{
		{one(nil), `headers = "f": the value has no kind`},
		{one(&brokerv1.Value{}), `headers = "f": the value has no kind`},
		{one(&brokerv1.Value{Kind: &brokerv1.Value_Int8{Int8: 128}}), `headers = "f" = 128: want -128 to 127 for int8`},
		{one(&brokerv1.Value{Kind: &brokerv1.Value_Uint8{Uint8: 256}}), `want 0 to 255 for uint8`},
		{one(&brokerv1.Value{Kind: &brokerv1.Value_Int16{Int16: -32769}}), `want -32768 to 32767 for int16`},
		{one(&brokerv1.Value{Kind: &brokerv1.Value_Uint16{Uint16: 65536}}), `want 0 to 65535 for uint16`},
		{one(&brokerv1.Value{Kind: &brokerv1.Value_Decimal{Decimal: &brokerv1.Decimal{Scale: 256}}}), `want 0 to 255 for scale of a decimal`},
		{one(deep), `nested more than 64 levels deep`},
	} {
		if _, err := fromTable("headers", row.table); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%v, want %s", err, row.want)
		}
	}
}

// Whatever a client sends is refused, or comes back the same.
func FuzzTable(f *testing.F) {
	b, err := proto.Marshal(toTable(allKinds()))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var in brokerv1.Table
		if proto.Unmarshal(b, &in) != nil {
			return
		}
		table, err := fromTable("headers", &in)
		if err != nil {
			return
		}
		again, err := fromTable("headers", wired(t, toTable(table)))
		if err != nil || !message.TableValue(table).Equal(message.TableValue(again)) {
			t.Fatalf("%v became %v, %v", table, again, err)
		}
	})
}
