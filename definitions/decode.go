package definitions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/message"
)

// object is a JSON object with its members in the order of the document.
type object []member

// member is one name of an object with its value; encoding/json would lose the order, which faults
// and exports keep.
type member struct {
	name  string
	value any // nil, bool, json.Number, string, []any or object
}

// get returns the first member of the name. Objects are small (maxMembers), so it searches.
func (o object) get(name string) (any, bool) {
	for i := range o {
		if o[i].name == name {
			return o[i].value, true
		}
	}
	return nil, false
}

// decoder reads JSON into plain values.
type decoder struct {
	in     *json.Decoder
	faults *Faults
	path   []string // members and [n] on the way to the present value
}

// errForm ends decoding after the fault was recorded.
var errForm = errors.New("definitions: not JSON")

// decode reads one JSON value and checks that nothing follows. A text that is not JSON is one
// fault.
func decode(text []byte, faults *Faults) (any, bool) {
	d := &decoder{in: json.NewDecoder(bytes.NewReader(text)), faults: faults}
	d.in.UseNumber()
	v, err := d.value()
	if err == nil {
		if _, err = d.in.Token(); errors.Is(err, io.EOF) {
			return v, true
		}
		faults.add("$", fmt.Sprintf("has more behind its end, at byte %d; give one JSON document", d.in.InputOffset()))
		return nil, false
	}
	if !errors.Is(err, errForm) {
		at := d.in.InputOffset()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			faults.add("$", fmt.Sprintf("ends in the middle, at byte %d: the document was cut off", len(text)))
		} else {
			faults.add("$", fmt.Sprintf("is not JSON at byte %d: %v", at, err))
		}
	}
	return nil, false
}

// add counts every fault and keeps the first maxFaults of them, to bound the answer to a document
// that is wrong throughout.
func (f *Faults) add(path, reason string) {
	f.Total++
	if len(f.List) < maxFaults {
		f.List = append(f.List, Fault{path, reason})
	}
}

func (d *decoder) fault(reason string) { d.faults.add("$"+strings.Join(d.path, ""), reason) }

// value reads the value that comes next; the path is the way to it. MaxDepth bounds the recursion.
func (d *decoder) value() (any, error) {
	t, err := d.in.Token()
	if err != nil {
		return nil, err
	}
	delim, is := t.(json.Delim)
	if !is {
		return t, nil
	}
	if len(d.path) >= MaxDepth {
		d.fault(fmt.Sprintf("is nested deeper than %d levels", MaxDepth))
		return nil, errForm
	}
	if delim == '[' {
		return d.list()
	}
	return d.object()
}

// list reads the elements up to the closing bracket, which the last Token call takes.
func (d *decoder) list() (any, error) {
	out := []any{}
	for d.in.More() {
		d.path = append(d.path, "["+strconv.Itoa(len(out))+"]")
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		d.path = d.path[:len(d.path)-1]
		out = append(out, v)
	}
	_, err := d.in.Token()
	return out, err
}

// object reads the members up to the closing brace. A name that stands twice is a fault, because
// parsers disagree about which one counts.
func (d *decoder) object() (any, error) {
	out := object{}
	for d.in.More() {
		t, err := d.in.Token()
		if err != nil {
			return nil, err
		}
		if len(out) == maxMembers {
			d.fault(fmt.Sprintf("has more than %d members", maxMembers))
			return nil, errForm
		}
		name, _ := t.(string)
		d.path = append(d.path, "."+name)
		if _, twice := out.get(name); twice {
			d.fault("occurs twice")
		}
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		d.path = d.path[:len(d.path)-1]
		out = append(out, member{name, v})
	}
	_, err := d.in.Token()
	return out, err
}

// entry is an object of the document with its path.
type entry struct {
	faults *Faults
	path   string
	object object
}

func (e *entry) fault(name, reason string) { e.faults.add(e.path+"."+name, reason) }

func (e *entry) wrong(name, want string, v any) { e.fault(name, "is "+kindOf(v)+"; want "+want) }

// get returns a member; null counts as absent.
func (e *entry) get(name string) (any, bool) {
	v, ok := e.object.get(name)
	return v, ok && v != nil
}

// need returns a string that is required.
func (e *entry) need(name string) string {
	if _, ok := e.get(name); !ok {
		e.fault(name, "is missing")
		return ""
	}
	return e.text(name, "")
}

// text returns the string of a member, or absent without one. A value of another type is a fault.
func (e *entry) text(name, absent string) string {
	v, ok := e.get(name)
	if !ok {
		return absent
	}
	s, is := v.(string)
	if !is {
		e.wrong(name, "a string", v)
	}
	return s
}

// oneOf reads one of some words; an absent member counts as the first.
func (e *entry) oneOf(name string, words ...string) string {
	s := e.text(name, words[0])
	if !slices.Contains(words, s) {
		e.fault(name, "is "+strconv.Quote(s)+"; want one of "+strings.Join(words, ", "))
	}
	return s
}

// boolean returns the truth value of a member, or absent without one.
func (e *entry) boolean(name string, absent bool) bool {
	v, ok := e.get(name)
	if !ok {
		return absent
	}
	b, is := v.(bool)
	if !is {
		e.wrong(name, "true or false", v)
	}
	return b
}

// integer returns the whole number of a member, or absent without one. It parses the digits, so numbers beyond 2^53
// stay exact.
func (e *entry) integer(name string, absent int64) int64 {
	v, ok := e.get(name)
	if !ok {
		return absent
	}
	number, _ := v.(json.Number)
	n, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil {
		e.wrong(name, "a whole number", v)
	}
	return n
}

// texts reads a list of strings or, as in older documents, one string with commas.
func (e *entry) texts(name string) []string {
	v, ok := e.get(name)
	if !ok {
		return nil
	}
	if s, is := v.(string); is {
		return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
	}
	list, is := v.([]any)
	if !is {
		e.wrong(name, "a list of strings", v)
	}
	var out []string
	for i, x := range list {
		s, is := x.(string)
		if !is {
			e.wrong(name+"["+strconv.Itoa(i)+"]", "a string", x)
		}
		out = append(out, s)
	}
	return out
}

// within reads an object. RabbitMQ writes an empty one as an empty list.
func (e *entry) within(name string) entry {
	inner := entry{faults: e.faults, path: e.path + "." + name}
	v, ok := e.get(name)
	if !ok {
		return inner
	}
	if list, is := v.([]any); is && len(list) == 0 {
		return inner
	}
	o, is := v.(object)
	if !is {
		e.wrong(name, "an object", v)
	}
	inner.object = o
	return inner
}

func (e *entry) table(name string) message.Table {
	inner := e.within(name)
	return inner.fields()
}

// fields returns all members as a table, in the order of the document.
func (e *entry) fields() message.Table {
	if len(e.object) == 0 {
		return nil
	}
	t := make(message.Table, 0, len(e.object))
	for _, m := range e.object {
		t = append(t, message.Field{Name: m.name, Value: e.convert(m.name, m.value)})
	}
	return t
}

// convert gives a value a type. Whole numbers become 64-bit integers.
func (e *entry) convert(name string, v any) message.Value {
	switch v := v.(type) {
	case bool:
		return message.Bool(v)
	case string:
		return message.String(v)
	case json.Number:
		return e.number(name, string(v))
	case object:
		inner := entry{faults: e.faults, path: e.path + "." + name, object: v}
		return message.TableValue(inner.fields())
	case []any:
		values := make([]message.Value, len(v))
		for i, x := range v {
			values[i] = e.convert(name+"["+strconv.Itoa(i)+"]", x)
		}
		return message.Array(values...)
	}
	return message.Null()
}

// number reads a number; one beyond 64 bits is a fault.
func (e *entry) number(name, s string) message.Value {
	v, ok := message.ParseNumber(s)
	if !ok {
		e.fault(name, "is "+s+", beyond 64 bits")
	}
	return v
}

// kindOf names the type of a JSON value; for a number also its text.
func kindOf(v any) string {
	switch v := v.(type) {
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case json.Number:
		return "the number " + string(v)
	case []any:
		return "a list"
	case object:
		return "an object"
	}
	return "null"
}

// appendJSON writes a decoded value, without spaces.
func appendJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case object:
		b = append(b, '{')
		for i, m := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(append(appendText(b, m.name), ':'), m.value)
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, x := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, x)
		}
		return append(b, ']')
	case json.Number:
		return append(b, v...)
	case string:
		return appendText(b, v)
	case bool:
		return strconv.AppendBool(b, v)
	}
	return append(b, "null"...)
}

// appendText writes a JSON string without the escapes for HTML, which RabbitMQ does not write
// either.
func appendText(b []byte, s string) []byte {
	out := bytes.NewBuffer(b)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // encoding a string never fails
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
