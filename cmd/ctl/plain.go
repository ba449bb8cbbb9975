package main

import (
	"encoding/base64"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/quorate/quorate/client"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// plain turns a message of the API into what programs expect of JSON and YAML: all its fields under their own names, numbers
// as numbers, words for enumerations, tables as objects, and null for what is not there. docs/quoratectl.md promises it.
func plain(m proto.Message) map[string]any {
	r := m.ProtoReflect()
	fields := r.Descriptor().Fields()
	out := make(map[string]any, fields.Len())
	for i := range fields.Len() {
		f := fields.Get(i)
		out[string(f.Name())] = plainField(r, f)
	}
	return out
}

// plainAll is plain for a list; an empty one is a list as well.
func plainAll[M proto.Message](all []M) []any {
	out := make([]any, len(all))
	for i, m := range all {
		out[i] = plain(m)
	}
	return out
}

func plainField(m protoreflect.Message, f protoreflect.FieldDescriptor) any {
	v := m.Get(f)
	switch {
	case f.IsMap():
		out := make(map[string]any, v.Map().Len())
		for k, x := range v.Map().Range {
			out[k.String()] = plainSingle(f.MapValue(), x)
		}
		return out
	case f.IsList():
		out := make([]any, v.List().Len())
		for i := range out {
			out[i] = plainSingle(f, v.List().Get(i))
		}
		return out
	case isTable(f):
		t, _ := v.Message().Interface().(*brokerv1.Table)
		return plainTable(client.TableFromProto(t))
	case f.HasPresence() && !m.Has(f):
		return nil
	}
	return plainSingle(f, v)
}

// isTable tells that a field is a table; one that is not there is empty.
func isTable(f protoreflect.FieldDescriptor) bool {
	return f.Kind() == protoreflect.MessageKind && f.Message() == (*brokerv1.Table)(nil).ProtoReflect().Descriptor()
}

func plainSingle(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return plain(v.Message().Interface())
	case protoreflect.EnumKind:
		return plainEnum(f.Enum().Values(), v.Enum())
	case protoreflect.BytesKind:
		return base64.StdEncoding.EncodeToString(v.Bytes())
	default:
		return v.Interface()
	}
}

// plainEnum returns the word for a value: its name without that of the enumeration; nil for the unset one.
func plainEnum(all protoreflect.EnumValueDescriptors, n protoreflect.EnumNumber) any {
	v := all.ByNumber(n)
	switch {
	case n == 0:
		return nil
	case v == nil:
		return int32(n) // of a newer broker
	}
	prefix := strings.TrimSuffix(string(all.ByNumber(0).Name()), "UNSPECIFIED")
	return strings.ToLower(strings.TrimPrefix(string(v.Name()), prefix))
}

func plainTable(t client.Table) map[string]any {
	out := make(map[string]any, len(t))
	for name, v := range t {
		out[name] = plainValue(v)
	}
	return out
}

// plainValue turns a value of a table into one that JSON has.
func plainValue(v any) any {
	switch v := v.(type) {
	case client.Table:
		return plainTable(v)
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = plainValue(x)
		}
		return out
	case []byte:
		return base64.StdEncoding.EncodeToString(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case client.Decimal:
		return float64(v.Value) / math.Pow10(int(v.Scale))
	case float32:
		return plainFloat(float64(v))
	case float64:
		return plainFloat(v)
	default:
		return v
	}
}

// plainFloat returns a text for what JSON has no number for.
func plainFloat(v float64) any {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "Infinity"
	case math.IsInf(v, -1):
		return "-Infinity"
	}
	return v
}
