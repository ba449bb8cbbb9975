package grpcapi

import (
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/message"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// fromTable reads a table of the API (AM-9). where names it in errors.
func fromTable(where string, t *brokerv1.Table) (message.Table, error) {
	return fromFields(where, t.GetFields(), 1)
}

// fromNames reads a table in which each name may occur once, as in arguments and annotations;
// about names its owner.
func fromNames(where string, t *brokerv1.Table, about failure.Error) (message.Table, error) {
	out, err := fromTable(where, t)
	if err == nil {
		err = namesOnce(where, out, about)
	}
	return out, err
}

// namesOnce refuses a table in which a name occurs twice.
func namesOnce(where string, t message.Table, about failure.Error) error {
	if len(t) < 2 {
		return nil
	}
	seen := make(map[string]struct{}, len(t))
	for _, f := range t {
		if _, twice := seen[f.Name]; twice {
			about.Class, about.Arg, about.Value = failure.PreconditionFailed, f.Name, f.Value.String()
			about.Reason = "occurs twice in the " + where + "; give it once"
			return &about
		}
		seen[f.Name] = struct{}{}
	}
	return nil
}

// fromFields reads a table at a nesting depth. A raw name counts before the readable one.
func fromFields(where string, fields []*brokerv1.Field, depth int) (message.Table, error) {
	if len(fields) == 0 {
		return nil, nil
	}
	if depth > message.MaxTableDepth {
		return nil, tooDeep(where)
	}
	out := make(message.Table, len(fields))
	for i, f := range fields {
		name := f.GetName()
		if raw := f.GetRawName(); len(raw) > 0 {
			name = string(raw)
		}
		v, err := fromValue(where, name, f.GetValue(), depth)
		if err != nil {
			return nil, err
		}
		out[i] = message.Field{Name: name, Value: v}
	}
	return out, nil
}

func tooDeep(where string) error {
	return invalid("message", where, "", fmt.Sprintf("tables and arrays are nested more than %d levels deep", message.MaxTableDepth))
}

// fromValue reads one value; name is the name of its field.
func fromValue(where, name string, v *brokerv1.Value, depth int) (message.Value, error) {
	switch k := v.GetKind().(type) {
	case *brokerv1.Value_Void:
		return message.Null(), nil
	case *brokerv1.Value_Boolean:
		return message.Bool(k.Boolean), nil
	case *brokerv1.Value_Int64:
		return message.Int64(k.Int64), nil
	case *brokerv1.Value_Uint64:
		return message.Uint64(k.Uint64), nil
	case *brokerv1.Value_Int32:
		return message.Int32(k.Int32), nil
	case *brokerv1.Value_Uint32:
		return message.Uint32(k.Uint32), nil
	case *brokerv1.Value_Int16, *brokerv1.Value_Uint16, *brokerv1.Value_Int8, *brokerv1.Value_Uint8:
		return fromNarrow(where, name, v)
	case *brokerv1.Value_Float32:
		return message.Float32(k.Float32), nil
	case *brokerv1.Value_Float64:
		return message.Float64(k.Float64), nil
	case *brokerv1.Value_Decimal:
		if s := k.Decimal.GetScale(); s > math.MaxUint8 {
			return message.Value{}, outOfRange(where, name, int64(s), "scale of a decimal", 0, math.MaxUint8)
		}
		return message.Decimal(uint8(k.Decimal.GetScale()), k.Decimal.GetValue()), nil
	case *brokerv1.Value_String_:
		return message.String(k.String_), nil
	case *brokerv1.Value_RawString:
		return message.String(string(k.RawString)), nil
	case *brokerv1.Value_Bytes:
		return message.Bytes(k.Bytes), nil
	case *brokerv1.Value_Timestamp:
		return message.Timestamp(k.Timestamp), nil
	case *brokerv1.Value_Table:
		t, err := fromFields(where, k.Table.GetFields(), depth+1)
		return message.TableValue(t), err
	case *brokerv1.Value_Array:
		return fromArray(where, name, k.Array.GetValues(), depth+1)
	}
	return message.Value{}, invalid("message", where, strconv.Quote(name), "the value has no kind; set one, void for none")
}

// fromArray counts an array as a level of nesting, as the stored form does.
func fromArray(where, name string, values []*brokerv1.Value, depth int) (message.Value, error) {
	if depth > message.MaxTableDepth {
		return message.Value{}, tooDeep(where)
	}
	out := make([]message.Value, len(values))
	for i, e := range values {
		var err error
		if out[i], err = fromValue(where, name, e, depth); err != nil {
			return message.Value{}, err
		}
	}
	return message.Array(out...), nil
}

// fromNarrow reads the integer types that protobuf lacks.
func fromNarrow(where, name string, v *brokerv1.Value) (message.Value, error) {
	var n, low, high int64
	var kind string
	var out message.Value
	switch k := v.GetKind().(type) {
	case *brokerv1.Value_Int16:
		n, low, high, kind = int64(k.Int16), math.MinInt16, math.MaxInt16, "int16"
		out = message.Int16(int16(k.Int16))
	case *brokerv1.Value_Uint16:
		n, high, kind = int64(k.Uint16), math.MaxUint16, "uint16"
		out = message.Uint16(uint16(k.Uint16))
	case *brokerv1.Value_Int8:
		n, low, high, kind = int64(k.Int8), math.MinInt8, math.MaxInt8, "int8"
		out = message.Int8(int8(k.Int8))
	case *brokerv1.Value_Uint8:
		n, high, kind = int64(k.Uint8), math.MaxUint8, "uint8"
		out = message.Uint8(uint8(k.Uint8))
	}
	if n < low || n > high {
		return message.Value{}, outOfRange(where, name, n, kind, low, high)
	}
	return out, nil
}

func outOfRange(where, name string, n int64, kind string, low, high int64) error {
	return invalid("message", where, fmt.Sprintf("%s = %d", strconv.Quote(name), n), fmt.Sprintf("want %d to %d for %s", low, high, kind))
}

// toTable converts a table; nil for an empty one.
func toTable(t message.Table) *brokerv1.Table {
	if len(t) == 0 {
		return nil
	}
	fields := make([]brokerv1.Field, len(t))
	values := make([]brokerv1.Value, len(t))
	out := &brokerv1.Table{Fields: make([]*brokerv1.Field, len(t))}
	for i := range t {
		setValue(&values[i], t[i].Value)
		fields[i].Name, fields[i].RawName = shown(t[i].Name)
		fields[i].Value = &values[i]
		out.Fields[i] = &fields[i]
	}
	return out
}

// shown returns a text in a displayable form and, if it is not UTF-8, its bytes (AM-9).
func shown(s string) (text string, raw []byte) {
	if utf8.ValidString(s) {
		return s, nil
	}
	return valid(s), []byte(s)
}

// setValue converts one value. Strings that are not UTF-8 have a kind of their own (AM-9).
func setValue(out *brokerv1.Value, v message.Value) {
	n, _ := v.AsInt()
	switch v.Kind() {
	case message.KindNull:
		out.Kind = &brokerv1.Value_Void{Void: true}
	case message.KindBool:
		b, _ := v.AsBool()
		out.Kind = &brokerv1.Value_Boolean{Boolean: b}
	case message.KindInt8:
		out.Kind = &brokerv1.Value_Int8{Int8: int32(n)}
	case message.KindUint8:
		out.Kind = &brokerv1.Value_Uint8{Uint8: uint32(n)}
	case message.KindInt16:
		out.Kind = &brokerv1.Value_Int16{Int16: int32(n)}
	case message.KindUint16:
		out.Kind = &brokerv1.Value_Uint16{Uint16: uint32(n)}
	case message.KindInt32:
		out.Kind = &brokerv1.Value_Int32{Int32: int32(n)}
	case message.KindUint32:
		out.Kind = &brokerv1.Value_Uint32{Uint32: uint32(n)}
	case message.KindInt64:
		out.Kind = &brokerv1.Value_Int64{Int64: n}
	case message.KindUint64:
		u, _ := v.AsUint()
		out.Kind = &brokerv1.Value_Uint64{Uint64: u}
	case message.KindTimestamp:
		u, _ := v.AsUint()
		out.Kind = &brokerv1.Value_Timestamp{Timestamp: u}
	case message.KindFloat32:
		out.Kind = &brokerv1.Value_Float32{Float32: math.Float32frombits(uint32(v.FloatBits()))}
	case message.KindFloat64:
		f, _ := v.AsFloat()
		out.Kind = &brokerv1.Value_Float64{Float64: f}
	case message.KindDecimal:
		scale, unscaled, _ := v.AsDecimal()
		out.Kind = &brokerv1.Value_Decimal{Decimal: &brokerv1.Decimal{Scale: uint32(scale), Value: unscaled}}
	case message.KindString:
		s, _ := v.AsString()
		if utf8.ValidString(s) {
			out.Kind = &brokerv1.Value_String_{String_: s}
		} else {
			out.Kind = &brokerv1.Value_RawString{RawString: []byte(s)}
		}
	case message.KindBytes:
		s, _ := v.AsBytes()
		out.Kind = &brokerv1.Value_Bytes{Bytes: []byte(s)}
	case message.KindTable:
		t, _ := v.AsTable()
		nested := toTable(t)
		if nested == nil {
			nested = &brokerv1.Table{}
		}
		out.Kind = &brokerv1.Value_Table{Table: nested}
	case message.KindArray:
		a, _ := v.AsArray()
		values := make([]brokerv1.Value, len(a))
		array := &brokerv1.Array{Values: make([]*brokerv1.Value, len(a))}
		for i := range a {
			setValue(&values[i], a[i])
			array.Values[i] = &values[i]
		}
		out.Kind = &brokerv1.Value_Array{Array: array}
	default:
		out.Kind = &brokerv1.Value_Void{Void: true}
	}
}
