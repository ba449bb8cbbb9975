package message

import (
	"math"
	"strconv"
	"strings"
)

// Kind is the type of a Value.
type Kind uint8

// The kinds, numbered as in the stored form; Null is the zero value.
const (
	KindNull Kind = iota
	KindBool
	KindInt8
	KindUint8
	KindInt16
	KindUint16
	KindInt32
	KindUint32
	KindInt64
	KindUint64
	KindFloat32
	KindFloat64
	KindDecimal
	KindString
	KindBytes
	KindTimestamp
	KindTable
	KindArray

	kindEnd
)

// String returns the kind's name as used in error texts, for example "int32".
func (k Kind) String() string {
	names := [...]string{
		"null", "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
		"float32", "float64", "decimal", "string", "bytes", "timestamp", "table", "array",
	}
	if int(k) >= len(names) {
		return "kind " + strconv.Itoa(int(k))
	}
	return names[k]
}

// Value is one typed value of a header table. It is immutable; its zero value is null.
// Compare with Equal or EqualClass, not with ==.
type Value struct {
	kind  Kind
	scale uint8  // decimal places of a decimal
	num   uint64 // integers (sign-extended), bool, float bits, timestamp, unscaled decimal
	str   string // string and bytes
	nest  *nest  // table and array
}

// nest keeps the wide parts out of Value, so that a plain value stays 40 bytes.
type nest struct {
	table Table
	array []Value
}

// Null is the void value.
func Null() Value { return Value{} }

// Bool makes a boolean.
func Bool(v bool) Value {
	if v {
		return Value{kind: KindBool, num: 1}
	}
	return Value{kind: KindBool}
}

// Int8 makes a signed 8-bit integer.
func Int8(v int8) Value { return Value{kind: KindInt8, num: uint64(int64(v))} }

// Uint8 makes an unsigned 8-bit integer.
func Uint8(v uint8) Value { return Value{kind: KindUint8, num: uint64(v)} }

// Int16 makes a signed 16-bit integer.
func Int16(v int16) Value { return Value{kind: KindInt16, num: uint64(int64(v))} }

// Uint16 makes an unsigned 16-bit integer.
func Uint16(v uint16) Value { return Value{kind: KindUint16, num: uint64(v)} }

// Int32 makes a signed 32-bit integer.
func Int32(v int32) Value { return Value{kind: KindInt32, num: uint64(int64(v))} }

// Uint32 makes an unsigned 32-bit integer.
func Uint32(v uint32) Value { return Value{kind: KindUint32, num: uint64(v)} }

// Int64 makes a signed 64-bit integer.
func Int64(v int64) Value { return Value{kind: KindInt64, num: uint64(v)} }

// Uint64 makes an unsigned 64-bit integer.
func Uint64(v uint64) Value { return Value{kind: KindUint64, num: v} }

// Float32 makes a 32-bit float; its bits are kept.
func Float32(v float32) Value { return Value{kind: KindFloat32, num: uint64(math.Float32bits(v))} }

// Float64 makes a 64-bit float; its bits are kept.
func Float64(v float64) Value { return Value{kind: KindFloat64, num: math.Float64bits(v)} }

// Decimal makes a decimal: unscaled divided by ten to the power of scale.
func Decimal(scale uint8, unscaled int32) Value {
	return Value{kind: KindDecimal, scale: scale, num: uint64(int64(unscaled))}
}

// String makes a string (AMQP longstr).
func String(v string) Value { return Value{kind: KindString, str: v} }

// Bytes makes a byte array from a copy of v.
func Bytes(v []byte) Value { return Value{kind: KindBytes, str: string(v)} }

// Timestamp makes a time in seconds since the Unix epoch.
func Timestamp(seconds uint64) Value { return Value{kind: KindTimestamp, num: seconds} }

// TableValue makes a nested table; it takes over t.
func TableValue(t Table) Value { return Value{kind: KindTable, nest: &nest{table: t}} }

// Array makes an array; it takes over v.
func Array(v ...Value) Value { return Value{kind: KindArray, nest: &nest{array: v}} }

// Kind returns the value's type.
func (v Value) Kind() Kind { return v.kind }

// IsNull reports whether the value is void.
func (v Value) IsNull() bool { return v.kind == KindNull }

// AsBool returns the boolean; ok is false for other kinds.
func (v Value) AsBool() (b, ok bool) { return v.num != 0, v.kind == KindBool }

// IsInt reports whether the value is an integer of any width (C-2).
func (v Value) IsInt() bool { return v.kind >= KindInt8 && v.kind <= KindUint64 }

// AsInt returns an integer of any width; ok is false for other kinds and for unsigned
// values above the range of int64.
func (v Value) AsInt() (n int64, ok bool) {
	if !v.IsInt() || (v.kind == KindUint64 && v.num > math.MaxInt64) {
		return 0, false
	}
	return int64(v.num), true
}

// AsUint returns the number of an integer that is not negative, or of a timestamp.
func (v Value) AsUint() (n uint64, ok bool) {
	switch {
	case v.kind == KindTimestamp, v.kind == KindUint64:
		return v.num, true
	case v.IsInt() && int64(v.num) >= 0:
		return v.num, true
	}
	return 0, false
}

// FloatBits returns the bits of a float as they came, 32 or 64 of them; 0 for other kinds.
// AsFloat cannot keep those of every NaN.
func (v Value) FloatBits() uint64 {
	if v.kind == KindFloat32 || v.kind == KindFloat64 {
		return v.num
	}
	return 0
}

// AsFloat returns a float of either width; ok is false for other kinds.
func (v Value) AsFloat() (f float64, ok bool) {
	if v.kind == KindFloat32 {
		return float64(math.Float32frombits(uint32(v.num))), true
	}
	if v.kind == KindFloat64 {
		return math.Float64frombits(v.num), true
	}
	return 0, false
}

// AsDecimal returns scale and unscaled number; ok is false for other kinds.
func (v Value) AsDecimal() (scale uint8, unscaled int32, ok bool) {
	return v.scale, int32(v.num), v.kind == KindDecimal
}

// AsString returns the text of a string; ok is false for other kinds, bytes included.
func (v Value) AsString() (s string, ok bool) {
	if v.kind != KindString {
		return "", false
	}
	return v.str, true
}

// AsBytes returns the bytes of a byte array as a string; ok is false for other kinds.
func (v Value) AsBytes() (s string, ok bool) {
	if v.kind != KindBytes {
		return "", false
	}
	return v.str, true
}

// AsTable returns the nested table, which must not be changed; ok is false for other kinds.
func (v Value) AsTable() (t Table, ok bool) {
	if v.kind != KindTable || v.nest == nil {
		return nil, v.kind == KindTable
	}
	return v.nest.table, true
}

// AsArray returns the elements, which must not be changed; ok is false for other kinds.
func (v Value) AsArray() (a []Value, ok bool) {
	if v.kind != KindArray || v.nest == nil {
		return nil, v.kind == KindArray
	}
	return v.nest.array, true
}

// Equal reports whether two values have the same kind and the same bits; tables must have
// their fields in the same order.
func (v Value) Equal(w Value) bool {
	if v.kind != w.kind || v.scale != w.scale || v.num != w.num || v.str != w.str {
		return false
	}
	vt, _ := v.AsTable()
	wt, _ := w.AsTable()
	va, _ := v.AsArray()
	wa, _ := w.AsArray()
	if len(vt) != len(wt) || len(va) != len(wa) {
		return false
	}
	for i := range vt {
		if vt[i].Name != wt[i].Name || !vt[i].Value.Equal(wt[i].Value) {
			return false
		}
	}
	for i := range va {
		if !va[i].Equal(wa[i]) {
			return false
		}
	}
	return true
}

// EqualClass compares by class of type and by value (C-2, EX-9, Q-13): integers of any
// width are one class, floats of either width another, every other kind is its own. So
// Int8(5) equals Uint64(5), but neither String("5") nor Float64(5). Tables are equal
// when each name has an equal value in both, in any order.
func (v Value) EqualClass(w Value) bool {
	switch {
	case v.IsInt() && w.IsInt():
		return v.num == w.num && v.negative() == w.negative()
	case v.kind == KindFloat32 || v.kind == KindFloat64:
		vf, _ := v.AsFloat()
		wf, ok := w.AsFloat()
		return ok && (vf == wf || (math.IsNaN(vf) && math.IsNaN(wf)))
	case v.kind != w.kind:
		return false
	case v.kind == KindTable:
		vt, _ := v.AsTable()
		wt, _ := w.AsTable()
		return vt.EqualClass(wt)
	case v.kind == KindArray:
		va, _ := v.AsArray()
		wa, _ := w.AsArray()
		if len(va) != len(wa) {
			return false
		}
		for i := range va {
			if !va[i].EqualClass(wa[i]) {
				return false
			}
		}
		return true
	}
	return v.scale == w.scale && v.num == w.num && v.str == w.str
}

func (v Value) negative() bool { return v.kind != KindUint64 && int64(v.num) < 0 }

// String returns the value in a form for error texts and logs: strings are quoted,
// other values carry no type.
func (v Value) String() string {
	var b strings.Builder
	v.write(&b)
	return b.String()
}

// write is for people: kinds of numbers look alike.
func (v Value) write(b *strings.Builder) {
	switch v.kind {
	case KindNull:
		b.WriteString("null")
	case KindBool:
		b.WriteString(strconv.FormatBool(v.num != 0))
	case KindInt8, KindInt16, KindInt32, KindInt64:
		b.WriteString(strconv.FormatInt(int64(v.num), 10))
	case KindUint8, KindUint16, KindUint32, KindUint64, KindTimestamp:
		b.WriteString(strconv.FormatUint(v.num, 10))
	case KindFloat32, KindFloat64:
		f, _ := v.AsFloat()
		b.WriteString(strconv.FormatFloat(f, 'g', -1, 64))
	case KindDecimal:
		b.WriteString(strconv.FormatInt(int64(v.num), 10) + "e-" + strconv.Itoa(int(v.scale)))
	case KindString, KindBytes:
		b.WriteString(strconv.Quote(v.str))
	case KindTable:
		t, _ := v.AsTable()
		t.write(b)
	case KindArray:
		a, _ := v.AsArray()
		b.WriteByte('[')
		for i, e := range a {
			if i > 0 {
				b.WriteByte(' ')
			}
			e.write(b)
		}
		b.WriteByte(']')
	default:
		b.WriteString(v.kind.String())
	}
}
