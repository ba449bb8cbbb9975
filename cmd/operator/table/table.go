// Package table converts the arguments of objects between the three forms that the operator meets: the
// JSON of a custom resource, the broker's own tables, which know how values compare, and those of package
// client, which travel. The package only computes; all functions may be called concurrently.
package table

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/definitions"
	"github.com/quorate/quorate/message"
)

// Fault is what is wrong with one value; Path leads to it from the table on, such as [x-max-length].
type Fault struct{ Path, Reason string }

// Parse reads the JSON object of a custom resource as the broker reads definitions. An empty text is an empty
// table. If there are faults, no part of the table is usable.
func Parse(json []byte) (message.Table, []Fault) {
	if len(bytes.TrimSpace(json)) == 0 || string(json) == "null" {
		return nil, nil
	}
	t, err := definitions.ParseTable(json)
	var faults *definitions.Faults
	if !errors.As(err, &faults) {
		return t, nil
	}
	out := make([]Fault, 0, len(faults.List))
	for _, f := range faults.List {
		out = append(out, Fault{Path: strings.TrimPrefix(f.Path, "$"), Reason: f.Reason})
	}
	return nil, out
}

// ToClient returns a table as package client sends it.
func ToClient(t message.Table) client.Table {
	if t == nil {
		return nil
	}
	out := make(client.Table, len(t))
	for _, f := range t {
		out[f.Name] = toClient(f.Value)
	}
	return out
}

// toClient converts one value. Only kinds that JSON has occur, for Parse makes no others.
func toClient(v message.Value) any {
	if b, ok := v.AsBool(); ok {
		return b
	}
	if n, ok := v.AsInt(); ok {
		return n
	}
	if n, ok := v.AsUint(); ok {
		return n
	}
	if f, ok := v.AsFloat(); ok {
		return f
	}
	if s, ok := v.AsString(); ok {
		return s
	}
	if t, ok := v.AsTable(); ok {
		return ToClient(t)
	}
	if a, ok := v.AsArray(); ok {
		out := make([]any, len(a))
		for i, x := range a {
			out[i] = toClient(x)
		}
		return out
	}
	return nil
}

// FromClient returns a table that package client has received, its fields sorted by name.
func FromClient(t client.Table) message.Table {
	if t == nil {
		return nil
	}
	out := make(message.Table, 0, len(t))
	for name, v := range t {
		out = append(out, message.Field{Name: name, Value: fromClient(v)})
	}
	slices.SortFunc(out, func(a, b message.Field) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// fromClient is the reverse of what package client documents for the values of a Table.
func fromClient(v any) message.Value {
	switch v := v.(type) {
	case bool:
		return message.Bool(v)
	case string:
		return message.String(v)
	case []byte:
		return message.Bytes(v)
	case float32:
		return message.Float32(v)
	case float64:
		return message.Float64(v)
	case client.Decimal:
		return message.Decimal(v.Scale, v.Value)
	case time.Time:
		return message.Timestamp(uint64(v.Unix()))
	case client.Table:
		return message.TableValue(FromClient(v))
	case []any:
		out := make([]message.Value, len(v))
		for i, x := range v {
			out[i] = fromClient(x)
		}
		return message.Array(out...)
	case uint64:
		return message.Uint64(v)
	}
	return fromInteger(v)
}

// fromInteger widens the shorter integers: values compare by class (C-2), not by width.
func fromInteger(v any) message.Value {
	switch v := v.(type) {
	case int:
		return message.Int64(int64(v))
	case int64:
		return message.Int64(v)
	case int32:
		return message.Int64(int64(v))
	case int16:
		return message.Int64(int64(v))
	case int8:
		return message.Int64(int64(v))
	case uint32:
		return message.Int64(int64(v))
	case uint16:
		return message.Int64(int64(v))
	case uint8:
		return message.Int64(int64(v))
	}
	return message.Null()
}

// Difference is one thing that the broker has otherwise than the specification.
type Difference struct {
	// Field of the specification, such as arguments[x-max-length].
	Field string
	// Wanted and Found are the values as texts, or Absent.
	Wanted, Found string
}

// Absent stands for the value of an argument that one side does not have.
const Absent = "absent"

// String returns the difference as a part of a sentence.
func (d Difference) String() string {
	return d.Field + ": wanted " + d.Wanted + ", found " + d.Found
}

// Text returns the first few differences in one sentence part, and how many more there are.
func Text(all []Difference) string {
	const most = 5
	var b strings.Builder
	for i, d := range all[:min(most, len(all))] {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(d.String())
	}
	if more := len(all) - most; more > 0 {
		b.WriteString("; and " + strconv.Itoa(more) + " more")
	}
	return b.String()
}

// Compare returns the differences of those arguments that compared selects, by class and value (C-2); field is
// the name of the table in the specification. An argument that only one side has is a difference.
func Compare(field string, wanted, found message.Table, compared func(name string) bool) []Difference {
	var out []Difference
	names := make([]string, 0, len(wanted)+len(found))
	for _, f := range wanted {
		names = append(names, f.Name)
	}
	for _, f := range found {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		w, inWanted := wanted.Get(name)
		f, inFound := found.Get(name)
		if !compared(name) || inWanted && inFound && w.EqualClass(f) {
			continue
		}
		out = append(out, Difference{field + "[" + name + "]", valueText(w, inWanted), valueText(f, inFound)})
	}
	return out
}

// valueText shows a value as the broker's errors do.
func valueText(v message.Value, has bool) string {
	if !has {
		return Absent
	}
	return v.String()
}

// CompareText appends a difference of two texts, if they differ.
func CompareText(to []Difference, field, wanted, found string) []Difference {
	if wanted == found {
		return to
	}
	return append(to, Difference{field, strconv.Quote(wanted), strconv.Quote(found)})
}

// CompareBool appends a difference of two truth values, if they differ.
func CompareBool(to []Difference, field string, wanted, found bool) []Difference {
	if wanted == found {
		return to
	}
	return append(to, Difference{field, strconv.FormatBool(wanted), strconv.FormatBool(found)})
}

// Everything selects every argument for Compare.
func Everything(string) bool { return true }

// Key returns a text that is equal for tables that are equal by class and value, whatever the order of their
// fields: bindings have no name, so it is part of what distinguishes them.
func Key(t message.Table) string {
	sorted := slices.Clone(t)
	slices.SortFunc(sorted, func(a, b message.Field) int { return strings.Compare(a.Name, b.Name) })
	return string(sorted.AppendJSON(nil))
}
