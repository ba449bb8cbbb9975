package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/message"
)

// MaxBodyBytes bounds the body of a request, except one with definitions or a message.
const MaxBodyBytes = 1 << 20

// bad refuses a field of a request.
func bad(field, value, reason string) error {
	return &failure.Error{Class: failure.PreconditionFailed, Kind: "request", Arg: field, Value: value, Reason: reason}
}

// bodyTime is how long a client may take to send a request's body.
const bodyTime = time.Minute

// read returns the request's body, which may have most bytes.
func (c *call) read(most int64) ([]byte, error) { return c.readWithin(most, bodyTime) }

// readWithin is read for a body that takes its time.
func (c *call) readWithin(most int64, within time.Duration) ([]byte, error) {
	conn := http.NewResponseController(c.w)
	_ = conn.SetReadDeadline(time.Now().Add(within))         // every connection of a server has one
	defer func() { _ = conn.SetReadDeadline(time.Time{}) }() // of later requests the server takes care
	b, err := io.ReadAll(http.MaxBytesReader(c.w, c.Body, most))
	if e, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, bad("body", "", "has more than "+strconv.FormatInt(e.Limit, 10)+" bytes")
	}
	if err != nil {
		return nil, bad("body", "", "could not be read: "+err.Error())
	}
	return b, nil
}

// fields are those of the JSON object that came as the request's body.
type fields map[string]any

// object reads the request's body, a JSON object; an empty body is an empty object.
func (c *call) object() (fields, error) {
	b, err := c.read(MaxBodyBytes)
	if err != nil {
		return nil, err
	}
	return parse(b)
}

// parse reads a JSON object; no bytes are an empty object.
func parse(b []byte) (fields, error) {
	if len(bytes.TrimSpace(b)) == 0 {
		return fields{}, nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber() // integers stay exact up to 64 bits
	var f fields
	if err := d.Decode(&f); err != nil {
		return nil, bad("body", "", "is not a JSON object: "+err.Error())
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, bad("body", "", "goes on after the JSON object")
	}
	return f, nil
}

// text returns a field, or other if it is absent or null.
func (f fields) text(name, other string) (string, error) {
	switch v := f[name].(type) {
	case nil:
		return other, nil
	case string:
		return v, nil
	default:
		return "", bad(name, textOf(v), "want a string")
	}
}

// need returns a field that must be there.
func (f fields) need(name string) (string, error) {
	if f[name] == nil {
		return "", bad(name, "", "is missing")
	}
	return f.text(name, "")
}

// texts returns a field that is a list of strings, or one string with commas between, or other if it is absent or null.
func (f fields) texts(name string, other []string) ([]string, error) {
	switch v := f[name].(type) {
	case nil:
		return other, nil
	case string:
		return strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' }), nil
	case []any:
		out := make([]string, len(v))
		for i, x := range v {
			s, is := x.(string)
			if !is {
				return nil, bad(name, textOf(x), "want strings")
			}
			out[i] = s
		}
		return out, nil
	}
	return nil, bad(name, textOf(f[name]), "want a list of strings")
}

// flag returns a field, or other if it is absent or null. Tools send booleans as strings, too.
func (f fields) flag(name string, other bool) (bool, error) {
	switch v := f[name].(type) {
	case nil:
		return other, nil
	case bool:
		return v, nil
	case string:
		if b, err := strconv.ParseBool(v); err == nil {
			return b, nil
		}
	}
	return false, bad(name, textOf(f[name]), "want true or false")
}

// number returns a field, or other if it is absent or null. Tools send integers as strings, too.
func (f fields) number(name string, other int64) (int64, error) {
	var text string
	switch v := f[name].(type) {
	case nil:
		return other, nil
	case json.Number:
		text = v.String()
	case string:
		text = v
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, bad(name, textOf(f[name]), "want an integer")
	}
	return n, nil
}

// within returns a field that is an object; nil if it is absent, null, or the empty list that some
// tools send for an empty object.
func (f fields) within(name string) (fields, error) {
	switch v := f[name].(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return v, nil
	case []any:
		if len(v) == 0 {
			return nil, nil
		}
	}
	return nil, bad(name, textOf(f[name]), "want an object")
}

// table is within for an object of any fields, sorted by name.
func (f fields) table(name string) (message.Table, error) {
	o, err := f.within(name)
	if o == nil || err != nil {
		return nil, err
	}
	return toTableOf(name, o)
}

// toTableOf converts a JSON object; name is where it stands.
func toTableOf(name string, o map[string]any) (message.Table, error) {
	keys := make([]string, 0, len(o))
	for k := range o {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	out := make(message.Table, 0, len(o))
	for _, k := range keys {
		v, err := toValue(name+"."+k, o[k])
		if err != nil {
			return nil, err
		}
		out = append(out, message.Field{Name: k, Value: v})
	}
	return out, nil
}

// toValue converts a JSON value. Numbers beyond 64 bits are refused.
func toValue(name string, v any) (message.Value, error) {
	switch v := v.(type) {
	case bool:
		return message.Bool(v), nil
	case string:
		return message.String(v), nil
	case json.Number:
		n, ok := message.ParseNumber(v.String())
		if !ok {
			return message.Null(), bad(name, v.String(), "is beyond 64 bits")
		}
		return n, nil
	case map[string]any:
		t, err := toTableOf(name, v)
		return message.TableValue(t), err
	case []any:
		all := make([]message.Value, len(v))
		for i, x := range v {
			var err error
			if all[i], err = toValue(name+"["+strconv.Itoa(i)+"]", x); err != nil {
				return message.Null(), err
			}
		}
		return message.Array(all...), nil
	}
	return message.Null(), nil
}

// maxValueText bounds a value in an error, in bytes.
const maxValueText = 100

// textOf shows a value in an error.
func textOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b[:min(len(b), maxValueText)])
}
