package message

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ParseNumber reads a JSON number. It keeps integers exact up to 64 bits and takes everything with a point or exponent as
// a float; false: an integer is longer, which a float would round, or a float is beyond its range.
func ParseNumber(s string) (Value, bool) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return Int64(n), true
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		return Uint64(n), true
	}
	f, err := strconv.ParseFloat(s, 64)
	return Float64(f), err == nil && !math.IsInf(f, 0) && strings.ContainsAny(s, ".eE")
}

// MarshalJSON is AppendJSON; its error is always nil.
func (t Table) MarshalJSON() ([]byte, error) { return t.AppendJSON(nil), nil }

// AppendJSON appends the table as a JSON object, its fields in their order; of those of the
// same name the first one counts. What JSON has no type for becomes what is nearest, as
// RabbitMQ does it.
func (t Table) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	for i, f := range t {
		if slices.ContainsFunc(t[:i], func(g Field) bool { return g.Name == f.Name }) {
			continue
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = f.Value.appendJSON(append(appendTextJSON(b, f.Name), ':'))
	}
	return append(b, '}')
}

// appendJSON gives timestamps as numbers and bytes as text: JSON has neither.
func (v Value) appendJSON(b []byte) []byte {
	if x, ok := v.AsBool(); ok {
		return strconv.AppendBool(b, x)
	}
	if n, ok := v.AsInt(); ok {
		return strconv.AppendInt(b, n, 10)
	}
	if n, ok := v.AsUint(); ok { // beyond int64, and timestamps
		return strconv.AppendUint(b, n, 10)
	}
	if f, ok := v.AsFloat(); ok {
		return appendFloatJSON(b, f)
	}
	if scale, n, ok := v.AsDecimal(); ok {
		return appendFloatJSON(b, float64(n)/math.Pow10(int(scale)))
	}
	if s, ok := v.AsString(); ok {
		return appendTextJSON(b, s)
	}
	if s, ok := v.AsBytes(); ok {
		return appendTextJSON(b, s)
	}
	if t, ok := v.AsTable(); ok {
		return t.AppendJSON(b)
	}
	if a, ok := v.AsArray(); ok {
		b = append(b, '[')
		for i, x := range a {
			if i > 0 {
				b = append(b, ',')
			}
			b = x.appendJSON(b)
		}
		return append(b, ']')
	}
	return append(b, "null"...)
}

// appendFloatJSON writes a number that is read as no integer; JSON has none for infinity.
func appendFloatJSON(b []byte, f float64) []byte {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return append(b, "null"...)
	}
	text := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return append(b, text...)
}

// appendTextJSON replaces what is no UTF-8, as package json does.
func appendTextJSON(b []byte, s string) []byte {
	out := bytes.NewBuffer(b)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always can
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
