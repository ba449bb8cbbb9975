package client

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Types of requests and answers in this package have a tag `api` on each field: the name of the API's field that it
// stands for. The code here translates in both directions by these tags:
//
//   - a time is milliseconds since the Unix epoch, 0 the zero time; a duration is in the unit that
//     the API's name ends in;
//   - an enumeration is a string type: its values are in lower case, without the name of the enumeration;
//   - a pointer is nil where the API has nothing.
//
// It is for calls about the cluster. Messages that are published and consumed have code of their own.
const apiTag = "api"

// ask calls a method of a service that is safe to repeat, with a request of this package, and returns
// its answer as one.
func ask[A, S any, Q, R proto.Message](
	ctx context.Context, c *Client, request any, of func(*node) S, method func(S, context.Context, Q, ...grpc.CallOption) (R, error),
) (answer A, err error) {
	var none Q
	q, ok := none.ProtoReflect().New().Interface().(Q)
	if !ok {
		return answer, fmt.Errorf("client: %T is not of its own type", none)
	}
	if err := toProto(reflect.ValueOf(request), q.ProtoReflect()); err != nil {
		return answer, err
	}
	r, err := do(ctx, c, q, func(ctx context.Context, n *node, q Q) (R, error) { return method(of(n), ctx, q) })
	if err == nil {
		fromProto(reflect.ValueOf(&answer).Elem(), r.ProtoReflect())
	}
	return answer, err
}

// Services of a node.
func admin(n *node) brokerv1.AdminClient         { return n.admin }
func access(n *node) brokerv1.AccessClient       { return n.access }
func policies(n *node) brokerv1.PoliciesClient   { return n.policies }
func messages(n *node) brokerv1.MessagesClient   { return n.messages }
func clients(n *node) brokerv1.ConnectionsClient { return n.clients }
func events(n *node) brokerv1.EventsClient       { return n.events }
func logs(n *node) brokerv1.LogsClient           { return n.logs }

// Requests and answers with one field, or none.
type (
	nothing struct{}
	ofName  struct {
		Name string `api:"name"`
	}
	ofID struct {
		ID string `api:"id"`
	}
	inVHost struct {
		VHost string `api:"vhost"`
	}
	created struct {
		Yes bool `api:"created"`
	}
	deleted struct {
		Yes bool `api:"deleted"`
	}
	counted struct {
		Messages uint64 `api:"messages"`
	}
	warned struct {
		Created  bool     `api:"created"`
		Warnings []string `api:"warnings"`
	}
)

// owned returns a message of the API as the type of this package.
func owned[A any](m proto.Message) (a A) {
	fromProto(reflect.ValueOf(&a).Elem(), m.ProtoReflect())
	return a
}

// fromProto fills a struct.
func fromProto(to reflect.Value, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range to.NumField() {
		name, ok := to.Type().Field(i).Tag.Lookup(apiTag)
		if !ok {
			continue
		}
		f := fields.ByName(protoreflect.Name(name))
		switch v := to.Field(i); {
		case f == nil: // TestEveryFieldIsTranslated checks this
		case f.IsMap():
			if n := m.Get(f).Map().Len(); n > 0 {
				v.Set(reflect.MakeMapWithSize(v.Type(), n))
			}
			for key, x := range m.Get(f).Map().Range {
				one := reflect.New(v.Type().Elem()).Elem()
				singleFromProto(one, f.MapValue(), x)
				v.SetMapIndex(reflect.ValueOf(key.Interface()).Convert(v.Type().Key()), one)
			}
		case f.IsList():
			all := m.Get(f).List()
			if all.Len() > 0 {
				v.Set(reflect.MakeSlice(v.Type(), all.Len(), all.Len()))
			}
			for n := range all.Len() {
				singleFromProto(v.Index(n), f, all.Get(n))
			}
		case !f.HasPresence() || m.Has(f):
			singleFromProto(v, f, m.Get(f))
		}
	}
}

// singleFromProto sets one value that is neither list nor map. Times of 0 stay zero; durations have
// the unit that the field's name ends in.
func singleFromProto(to reflect.Value, f protoreflect.FieldDescriptor, v protoreflect.Value) {
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	switch own := to.Addr().Interface().(type) {
	case *Table:
		t, _ := v.Message().Interface().(*brokerv1.Table)
		*own = tableFromProto(t)
		return
	case *time.Time:
		if ms := v.Int(); ms != 0 {
			*own = time.UnixMilli(ms)
		}
		return
	case *time.Duration:
		*own = time.Duration(integer(v)) * unitOf(f)
		return
	}
	switch f.Kind() {
	case protoreflect.MessageKind:
		fromProto(to, v.Message())
	case protoreflect.EnumKind:
		to.SetString(wordOf(f.Enum(), v.Enum()))
	default:
		to.Set(reflect.ValueOf(v.Interface()).Convert(to.Type()))
	}
}

// toProto fills a message of the API. It fails for a table that cannot be sent, and for a word that an enumeration does
// not have.
func toProto(from reflect.Value, m protoreflect.Message) error {
	fields := m.Descriptor().Fields()
	for i := range from.NumField() {
		name, ok := from.Type().Field(i).Tag.Lookup(apiTag)
		f := fields.ByName(protoreflect.Name(name))
		v := from.Field(i)
		if !ok || f == nil || v.IsZero() {
			continue // TestEveryFieldIsTranslated checks this
		}
		if err := fieldToProto(v, m, f); err != nil {
			return err
		}
	}
	return nil
}

// fieldToProto sets a field: each pair of a map, each element of a list, or else the one value.
func fieldToProto(v reflect.Value, m protoreflect.Message, f protoreflect.FieldDescriptor) error {
	switch {
	case f.IsMap():
		all := m.Mutable(f).Map()
		for pair := v.MapRange(); pair.Next(); {
			key, err := singleToProto(pair.Key(), f.MapKey(), nil)
			if err != nil {
				return err
			}
			x, err := singleToProto(pair.Value(), f.MapValue(), all.NewValue)
			if err != nil {
				return err
			}
			all.Set(key.MapKey(), x)
		}
	case f.IsList():
		all := m.Mutable(f).List()
		for n := range v.Len() {
			x, err := singleToProto(v.Index(n), f, all.NewElement)
			if err != nil {
				return err
			}
			all.Append(x)
		}
	default:
		x, err := singleToProto(v, f, func() protoreflect.Value { return m.NewField(f) })
		if err != nil {
			return err
		}
		m.Set(f, x)
	}
	return nil
}

// singleToProto is the inverse of singleFromProto; empty makes the message that a struct fills. Durations are rounded
// up, so that a short one does not become 0.
func singleToProto(v reflect.Value, f protoreflect.FieldDescriptor, empty func() protoreflect.Value) (protoreflect.Value, error) {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch own := v.Interface().(type) {
	case Table:
		t, err := own.proto()
		return protoreflect.ValueOfMessage(t.ProtoReflect()), err
	case time.Time:
		return protoreflect.ValueOfInt64(own.UnixMilli()), nil
	case time.Duration:
		n := own / unitOf(f)
		if own%unitOf(f) > 0 {
			n++ // round up
		}
		if f.Kind() == protoreflect.Uint64Kind {
			return protoreflect.ValueOfUint64(uint64(n)), nil
		}
		return protoreflect.ValueOfInt64(int64(n)), nil
	}
	switch f.Kind() {
	case protoreflect.MessageKind:
		x := empty()
		return x, toProto(v, x.Message())
	case protoreflect.EnumKind:
		n, err := numberOf(f.Enum(), v.String())
		return protoreflect.ValueOfEnum(n), err
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(v.String()), nil
	default:
		return protoreflect.ValueOf(v.Interface()), nil // a number or a truth value of the same Go type
	}
}

// integer returns a signed or unsigned number.
func integer(v protoreflect.Value) int64 {
	if n, ok := v.Interface().(uint64); ok {
		return int64(n)
	}
	return v.Int()
}

// unitOf returns the unit that the API's name of a duration ends in.
func unitOf(f protoreflect.FieldDescriptor) time.Duration {
	if strings.HasSuffix(string(f.Name()), "_us") {
		return time.Microsecond
	}
	return time.Millisecond
}

// wordOf returns a value of an enumeration: its name without that of the enumeration, "" for the unset one, and
// the number if a newer broker has sent it.
func wordOf(e protoreflect.EnumDescriptor, n protoreflect.EnumNumber) string {
	v := e.Values().ByNumber(n)
	switch {
	case n == 0:
		return ""
	case v == nil:
		return strconv.Itoa(int(n))
	}
	prefix := strings.TrimSuffix(string(e.Values().ByNumber(0).Name()), "UNSPECIFIED")
	return strings.ToLower(strings.TrimPrefix(string(v.Name()), prefix))
}

// numberOf finds the number of an enumeration's word. A bare number stands for a value that only a
// newer broker knows.
func numberOf(e protoreflect.EnumDescriptor, word string) (protoreflect.EnumNumber, error) {
	var known []string
	for i := range e.Values().Len() {
		n := e.Values().Get(i).Number()
		if wordOf(e, n) == word {
			return n, nil
		}
		known = append(known, wordOf(e, n))
	}
	if n, err := strconv.ParseInt(word, 10, 32); err == nil {
		return protoreflect.EnumNumber(n), nil // of a newer broker, as wordOf writes it
	}
	return 0, fmt.Errorf("client: %q is none of %s: use one of %q", word, e.Name(), known[1:])
}
