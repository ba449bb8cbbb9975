package client

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Table holds headers and arguments by name. Values are nil, bool, integers, floats,
// string, []byte, time.Time (whole seconds), Decimal, Table or []any of these; int and
// int64 travel as 64 bits.
type Table map[string]any

// Decimal is Value / 10^Scale.
type Decimal struct {
	Scale uint8
	Value int32
}

// maxTableDepth bounds tables and lists within one another.
const maxTableDepth = 32

func (t Table) proto() (*brokerv1.Table, error) { return tableToProto(t, 0) }

// tableToProto writes the fields sorted by name: Go's maps have no order, and equal tables must be equal bytes.
func tableToProto(t Table, depth int) (*brokerv1.Table, error) {
	if t == nil {
		return nil, nil
	}
	if depth > maxTableDepth {
		return nil, fmt.Errorf("client: table is nested deeper than %d levels", maxTableDepth)
	}
	p := &brokerv1.Table{Fields: make([]*brokerv1.Field, 0, len(t))}
	for _, name := range slices.Sorted(maps.Keys(t)) {
		v, err := valueToProto(t[name], depth)
		if err != nil {
			return nil, fmt.Errorf("client: field %q: %w", name, err)
		}
		f := &brokerv1.Field{Value: v}
		f.Name, f.RawName = shown(name)
		p.Fields = append(p.Fields, f)
	}
	return p, nil
}

// shown returns a text as the API can have it and, if it is not UTF-8, its bytes (AM-9).
func shown(s string) (text string, raw []byte) {
	if utf8.ValidString(s) {
		return s, nil
	}
	return strings.ToValidUTF8(s, "\uFFFD"), []byte(s)
}

// exact is the inverse of shown.
func exact(text string, raw []byte) string {
	if len(raw) > 0 {
		return string(raw)
	}
	return text
}

// valueToProto chooses the kind by the Go type, which the broker then keeps (AM-9).
func valueToProto(v any, depth int) (*brokerv1.Value, error) {
	switch v := v.(type) {
	case nil:
		return &brokerv1.Value{Kind: &brokerv1.Value_Void{Void: true}}, nil
	case bool:
		return &brokerv1.Value{Kind: &brokerv1.Value_Boolean{Boolean: v}}, nil
	case string:
		if !utf8.ValidString(v) {
			return &brokerv1.Value{Kind: &brokerv1.Value_RawString{RawString: []byte(v)}}, nil
		}
		return &brokerv1.Value{Kind: &brokerv1.Value_String_{String_: v}}, nil
	case []byte:
		return &brokerv1.Value{Kind: &brokerv1.Value_Bytes{Bytes: v}}, nil
	case float32:
		return &brokerv1.Value{Kind: &brokerv1.Value_Float32{Float32: v}}, nil
	case float64:
		return &brokerv1.Value{Kind: &brokerv1.Value_Float64{Float64: v}}, nil
	case Decimal:
		return &brokerv1.Value{Kind: &brokerv1.Value_Decimal{Decimal: &brokerv1.Decimal{Scale: uint32(v.Scale), Value: v.Value}}}, nil
	case time.Time:
		if v.Unix() < 0 {
			return nil, fmt.Errorf("time %v is before 1970", v)
		}
		return &brokerv1.Value{Kind: &brokerv1.Value_Timestamp{Timestamp: uint64(v.Unix())}}, nil
	case Table:
		t, err := tableToProto(v, depth+1)
		return &brokerv1.Value{Kind: &brokerv1.Value_Table{Table: t}}, err
	case []any:
		return arrayToProto(v, depth)
	default:
		return integerToProto(v)
	}
}

// arrayToProto counts an array as a level of nesting, as the broker does.
func arrayToProto(values []any, depth int) (*brokerv1.Value, error) {
	if depth > maxTableDepth {
		return nil, fmt.Errorf("list is nested deeper than %d levels", maxTableDepth)
	}
	a := &brokerv1.Array{Values: make([]*brokerv1.Value, 0, len(values))}
	for i, v := range values {
		p, err := valueToProto(v, depth+1)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		a.Values = append(a.Values, p)
	}
	return &brokerv1.Value{Kind: &brokerv1.Value_Array{Array: a}}, nil
}

// integerToProto keeps the width of the Go type; int travels as 64 bits.
func integerToProto(v any) (*brokerv1.Value, error) {
	switch v := v.(type) {
	case int:
		return &brokerv1.Value{Kind: &brokerv1.Value_Int64{Int64: int64(v)}}, nil
	case int64:
		return &brokerv1.Value{Kind: &brokerv1.Value_Int64{Int64: v}}, nil
	case int32:
		return &brokerv1.Value{Kind: &brokerv1.Value_Int32{Int32: v}}, nil
	case int16:
		return &brokerv1.Value{Kind: &brokerv1.Value_Int16{Int16: int32(v)}}, nil
	case int8:
		return &brokerv1.Value{Kind: &brokerv1.Value_Int8{Int8: int32(v)}}, nil
	case uint64:
		return &brokerv1.Value{Kind: &brokerv1.Value_Uint64{Uint64: v}}, nil
	case uint32:
		return &brokerv1.Value{Kind: &brokerv1.Value_Uint32{Uint32: v}}, nil
	case uint16:
		return &brokerv1.Value{Kind: &brokerv1.Value_Uint16{Uint16: uint32(v)}}, nil
	case uint8:
		return &brokerv1.Value{Kind: &brokerv1.Value_Uint8{Uint8: uint32(v)}}, nil
	default:
		return nil, fmt.Errorf("%T cannot travel in a table: use nil, bool, numbers, string, []byte, time.Time, Decimal, Table or []any", v)
	}
}

// tableFromProto converts a table of the API; nil stays nil. Integers keep their width, so that
// they are unchanged when they are sent again.
func tableFromProto(p *brokerv1.Table) Table {
	if p == nil {
		return nil
	}
	t := make(Table, len(p.GetFields()))
	for _, f := range p.GetFields() {
		t[exact(f.GetName(), f.GetRawName())] = valueFromProto(f.GetValue())
	}
	return t
}

// valueFromProto returns the Go type that valueToProto would take for the same kind.
func valueFromProto(p *brokerv1.Value) any {
	switch k := p.GetKind().(type) {
	case *brokerv1.Value_Boolean:
		return k.Boolean
	case *brokerv1.Value_Int64:
		return k.Int64
	case *brokerv1.Value_Uint64:
		return k.Uint64
	case *brokerv1.Value_Int32:
		return k.Int32
	case *brokerv1.Value_Uint32:
		return k.Uint32
	case *brokerv1.Value_Int16:
		return int16(k.Int16)
	case *brokerv1.Value_Uint16:
		return uint16(k.Uint16)
	case *brokerv1.Value_Int8:
		return int8(k.Int8)
	case *brokerv1.Value_Uint8:
		return uint8(k.Uint8)
	case *brokerv1.Value_Float32:
		return k.Float32
	case *brokerv1.Value_Float64:
		return k.Float64
	case *brokerv1.Value_Decimal:
		return Decimal{Scale: uint8(k.Decimal.GetScale()), Value: k.Decimal.GetValue()}
	case *brokerv1.Value_String_:
		return k.String_
	case *brokerv1.Value_RawString:
		return string(k.RawString)
	case *brokerv1.Value_Bytes:
		return k.Bytes
	case *brokerv1.Value_Timestamp:
		return time.Unix(int64(k.Timestamp), 0)
	case *brokerv1.Value_Table:
		return tableFromProto(k.Table)
	case *brokerv1.Value_Array:
		a := make([]any, 0, len(k.Array.GetValues()))
		for _, v := range k.Array.GetValues() {
			a = append(a, valueFromProto(v))
		}
		return a
	default: // void, or a kind of a newer broker
		return nil
	}
}
