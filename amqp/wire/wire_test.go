package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/quorate/quorate/message"
)

// unhex turns hexadecimal digits with blanks, and text in quotes, into bytes.
func unhex(t *testing.T, s string) []byte {
	t.Helper()
	var b []byte
	for i, part := range strings.Split(s, "'") {
		if i%2 == 1 {
			b = append(b, part...)
			continue
		}
		digits, err := hex.DecodeString(strings.ReplaceAll(part, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, digits...)
	}
	return b
}

func allKinds() message.Table {
	return message.Table{
		{Name: "null", Value: message.Null()},
		{Name: "bool", Value: message.Bool(true)},
		{Name: "int8", Value: message.Int8(-1)},
		{Name: "uint8", Value: message.Uint8(200)},
		{Name: "int16", Value: message.Int16(-300)},
		{Name: "uint16", Value: message.Uint16(60000)},
		{Name: "int32", Value: message.Int32(math.MinInt32)},
		{Name: "uint32", Value: message.Uint32(math.MaxUint32)},
		{Name: "int64", Value: message.Int64(math.MinInt64)},
		{Name: "float32", Value: message.Float32(1.5)},
		{Name: "float64", Value: message.Float64(math.Inf(-1))},
		{Name: "decimal", Value: message.Decimal(2, -314)},
		{Name: "string", Value: message.String("grüße")},
		{Name: "binary in a string", Value: message.String("\xff\x00")},
		{Name: "bytes", Value: message.Bytes([]byte{0, 1, 2})},
		{Name: "time", Value: message.Timestamp(1 << 40)},
		{Name: "table", Value: message.TableValue(message.Table{{Name: "in", Value: message.Array(message.Int32(1), message.String("a"))}})},
		{Name: "empty table", Value: message.TableValue(nil)},
		{Name: "empty array", Value: message.Array()},
		{Name: "", Value: message.String("")},
	}
}

// The bytes are those of the examples in the specification, and those that clients send.
func TestMethodBytes(t *testing.T) {
	for _, c := range []struct {
		m    Method
		want string
	}{
		{&BasicPublish{Exchange: "x", RoutingKey: "key", Mandatory: true}, "003c 0028 0000 01'x' 03'key' 01"},
		{&BasicAck{DeliveryTag: 258, Multiple: true}, "003c 0050 0000000000000102 01"},
		{&BasicNack{DeliveryTag: 1, Requeue: true}, "003c 0078 0000000000000001 02"},
		{&ConnectionTune{ChannelMax: 2047, FrameMax: 131072, Heartbeat: 60}, "000a 001e 07ff 00020000 003c"},
		{
			&QueueDeclare{Queue: "q", Durable: true, NoWait: true, Arguments: message.Table{{Name: "n", Value: message.Int32(5)}}},
			"0032 000a 0000 01'q' 12 00000007 01'n' 'I' 00000005",
		},
		{&ConnectionOpen{VirtualHost: "/"}, "000a 0028 01'/' 00 00"},
		{&ExchangeUnbindOK{}, "0028 0033"},
		{&ConfirmSelect{NoWait: true}, "0055 000a 01"},
	} {
		want := unhex(t, c.want)
		got := AppendMethod(nil, 7, c.m)
		f, n, _, err := ParseFrame(got, 0)
		if err != nil || n != len(got) || f.Type != FrameMethod || f.Channel != 7 {
			t.Fatalf("%s: frame %v of %d bytes, %d in all: %v", c.m.ID(), f, n, len(got), err)
		}
		if !bytes.Equal(f.Payload, want) {
			t.Errorf("%s:\ngot  %x\nwant %x", c.m.ID(), f.Payload, want)
		}
		m, err := ParseMethod(want, new(Names))
		if err != nil || !reflect.DeepEqual(m, c.m) {
			t.Errorf("%s: read %+v, %v", c.m.ID(), m, err)
		}
	}
}

// Every method of the specification is read as it was written.
func TestMethodsRoundTrip(t *testing.T) {
	seen := 0
	for class := range uint32(100) {
		for method := range uint32(130) {
			id := MethodID(class<<16 | method)
			m := newMethod(id)
			if m == nil {
				continue
			}
			seen++
			fill(reflect.ValueOf(m).Elem())
			f, _, _, err := ParseFrame(AppendMethod(nil, 1, m), 0)
			if err != nil {
				t.Fatal(err)
			}
			back, err := ParseMethod(f.Payload, nil)
			if err != nil || !reflect.DeepEqual(m, back) || back.ID() != id {
				t.Errorf("%s: %+v came back as %+v, %v", id, m, back, err)
			}
			if _, err := ParseMethod(append(f.Payload, 0), nil); !code(err, SyntaxError) {
				t.Errorf("%s with a byte too many: %v", id, err)
			}
			if id.String() == "unknown method" {
				t.Errorf("%#x has no name", id)
			}
		}
	}
	if seen < 60 {
		t.Errorf("%d methods, the specification has more", seen)
	}
}

func fill(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Bool:
			f.SetBool(i%2 == 0)
		case reflect.String:
			f.SetString(strings.Repeat("s", i+1))
		case reflect.Slice:
			f.Set(reflect.ValueOf(allKinds()))
		default:
			f.SetUint(uint64(i + 1))
		}
	}
}

func code(err error, want ReplyCode) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == want
}

func TestFrameErrors(t *testing.T) {
	whole := AppendBody(nil, 3, []byte("hello"), 0)
	for n := range whole {
		f, used, need, err := ParseFrame(whole[:n], 0)
		if err != nil || used != 0 || need <= n || f.Payload != nil {
			t.Errorf("%d bytes: %v, %d used, %d wanted, %v", n, f, used, need, err)
		}
	}
	f, used, _, err := ParseFrame(append(bytes.Clone(whole), "rest"...), uint32(len(whole)))
	if err != nil || used != len(whole) || string(f.Payload) != "hello" || f.Channel != 3 {
		t.Errorf("%v, %d used, %v", f, used, err)
	}
	for what, b := range map[string][]byte{
		"type 4":     unhex(t, "04 0001 00000000 ce"),
		"wrong end":  unhex(t, "08 0000 00000000 cd"),
		"above max":  unhex(t, "03 0001 00010000"),
		"huge":       unhex(t, "03 0001 ffffffff"),
		"text":       []byte("GET / HTTP/1.1"),
		"past a max": AppendBody(nil, 3, make([]byte, 4089), 0),
	} {
		if _, _, _, err := ParseFrame(b, 4096); !code(err, FrameError) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestMethodErrors(t *testing.T) {
	for _, c := range []struct {
		name, payload string
		want          ReplyCode
	}{
		{"no ids", "003c", SyntaxError},
		{"unknown class", "0001 0001", CommandInvalid},
		{"unknown method", "003c 0001", CommandInvalid},
		{"string too short", "003c 0028 0000 05'x'", SyntaxError},
		{"no fields", "003c 0028", SyntaxError},
		{"table too long", "0032 000a 0000 00 00 000000ff", SyntaxError},
		{"table larger than memory", "0032 000a 0000 00 00 ffffffff", SyntaxError},
		{"field across the table's end", "0032 000a 0000 00 00 00000003 01'n' 'I' 00000005", SyntaxError},
		{"unknown type", "0032 000a 0000 00 00 00000004 01'n' '?' 00", SyntaxError},
		{"byte array across the table's end", "0032 000a 0000 00 00 00000008 01'n' 'x' 00000009 00", SyntaxError},
	} {
		if m, err := ParseMethod(unhex(t, c.payload), nil); !code(err, c.want) {
			t.Errorf("%s: %+v, %v", c.name, m, err)
		}
	}
}

// Tables and arrays with 10,000 levels are refused at the first level too many, whoever sends them.
func TestDeepTables(t *testing.T) {
	array := message.Array()
	for range 10_000 {
		array = message.Array(array)
	}
	for _, arguments := range []message.Table{nested(10_000), {{Name: "a", Value: array}}} {
		b := AppendMethod(nil, 1, &QueueBind{Queue: "q", Arguments: arguments})[frameHead:]
		_, err := ParseMethod(b[:len(b)-1], nil)
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != SyntaxError || !strings.Contains(e.Reason, "deep") {
			t.Errorf("%v", err)
		}
	}
}

func nested(depth int) message.Table {
	t := message.Table{{Name: "v", Value: message.Bool(true)}}
	for range depth - 1 {
		t = message.Table{{Name: "t", Value: message.TableValue(t)}}
	}
	return t
}

func TestTableLimits(t *testing.T) {
	many := make(message.Table, message.MaxHeaders+1)
	deepArray := message.Int8(1)
	for range message.MaxTableDepth {
		deepArray = message.Array(deepArray)
	}
	for _, c := range []struct {
		name  string
		table message.Table
		ok    bool
	}{
		{"deepest", nested(message.MaxTableDepth), true},
		{"too deep", nested(message.MaxTableDepth + 1), false},
		{"10,000 deep", nested(10_000), false},
		{"arrays too deep", message.Table{{Value: deepArray}}, false},
		{"most fields", many[1:], true},
		{"too many fields", many, false},
		{"too many elements", message.Table{{Value: message.Array(make([]message.Value, message.MaxHeaders+1)...)}}, false},
	} {
		payload := AppendMethod(nil, 1, &QueueBind{Arguments: c.table})[frameHead:]
		_, err := ParseMethod(payload[:len(payload)-1], nil)
		if c.ok && err != nil || !c.ok && !code(err, SyntaxError) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// An integer that no signed type holds is written as digits. The specification's letters for types
// are understood.
func TestOddFields(t *testing.T) {
	got := appendValue(nil, message.Uint64(math.MaxUint64))
	if want := unhex(t, "'S' 00000014 '18446744073709551615'"); !bytes.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := appendValue(nil, message.Uint64(7)); !bytes.Equal(got, unhex(t, "'l' 0000000000000007")) {
		t.Errorf("got %q", got)
	}
	d := decoder{b: unhex(t, "'U' fffe 'L' fffffffffffffffe")}
	a, b := d.value(1), d.value(1)
	if d.end("values") != nil || !a.Equal(message.Int16(-2)) || !b.Equal(message.Int64(-2)) {
		t.Errorf("%v %v %v", a, b, d.err)
	}
}

func TestLongTexts(t *testing.T) {
	long := strings.Repeat("ä", 200)
	f, _, _, err := ParseFrame(AppendMethod(nil, 0, &ConnectionClose{ReplyCode: uint16(NotFound), ReplyText: long}), 0)
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseMethod(f.Payload, nil)
	if c, ok := m.(*ConnectionClose); err != nil || !ok || c.ReplyText != long[:254] {
		t.Errorf("%+v, %v", m, err)
	}
}

func full() message.Message {
	return message.Message{
		Properties: message.Properties{
			ContentType: "text/plain", ContentEncoding: "gzip", CorrelationID: "c", ReplyTo: "r", Expiration: "60000",
			MessageID: "m", Type: "t", UserID: "u", AppID: "a", Timestamp: 1700000000, DeliveryMode: 2, Priority: 9,
		},
		Headers: allKinds(),
		Body:    []byte("a body of some bytes"),
	}
}

func TestContentRoundTrip(t *testing.T) {
	empty := message.Message{Properties: message.Properties{Has: message.HasContentType | message.HasHeaders | message.HasPriority | message.HasTimestamp}}
	for _, m := range []message.Message{full(), empty, {}, {Body: []byte("x")}} {
		b := AppendContentHeader(nil, 9, &m, m.Headers)
		f, n, _, err := ParseFrame(b, 0)
		if err != nil || n != len(b) || f.Type != FrameHeader || f.Channel != 9 {
			t.Fatalf("%v %d %v", f, n, err)
		}
		back := message.Message{Properties: message.Properties{UserID: "of another message"}, Headers: message.Table{{Name: "old"}}}
		size, err := ParseContentHeader(f.Payload, &back)
		if err != nil || size != uint64(len(m.Body)) || back.Present() != m.Present() || back.Has != m.Present() {
			t.Fatalf("%d %v %x %x", size, err, back.Present(), m.Present())
		}
		back.Has, back.Body = m.Has, m.Body
		if !reflect.DeepEqual(back.Properties, m.Properties) || !message.TableValue(back.Headers).Equal(message.TableValue(m.Headers)) {
			t.Errorf("%+v came back as %+v", m, back)
		}
		for n := range f.Payload {
			if _, err := ParseContentHeader(f.Payload[:n], &back); err == nil {
				t.Errorf("%d of %d bytes are a content header", n, len(f.Payload))
			}
		}
	}
}

func TestContentHeaderErrors(t *testing.T) {
	for _, c := range []struct {
		name, payload string
		want          ReplyCode
	}{
		{"other class", "0032 0000 0000000000000001 0000", FrameError},
		{"more flags", "003c 0000 0000000000000001 0001 0000", SyntaxError},
		{"unknown property", "003c 0000 0000000000000001 0002", SyntaxError},
		{"property missing", "003c 0000 0000000000000001 8000", SyntaxError},
		{"bytes left", "003c 0000 0000000000000001 0000 00", SyntaxError},
	} {
		if _, err := ParseContentHeader(unhex(t, c.payload), new(message.Message)); !code(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// The cluster id of old clients is read and ignored.
	if _, err := ParseContentHeader(unhex(t, "003c 0000 0000000000000001 0004 02'id'"), new(message.Message)); err != nil {
		t.Error(err)
	}
}

func TestBodyFrames(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789"), 1000)
	for _, frameMax := range []uint32{0, MinFrameMax, MinFrameMax + 1, 131072} {
		b := AppendBody(nil, 1, body, frameMax)
		var got []byte
		for len(b) > 0 {
			f, n, _, err := ParseFrame(b, frameMax)
			if err != nil || n == 0 || f.Type != FrameBody {
				t.Fatalf("%v %d %v", f, n, err)
			}
			got, b = append(got, f.Payload...), b[n:]
		}
		if !bytes.Equal(got, body) {
			t.Errorf("frame_max %d: %d bytes of %d", frameMax, len(got), len(body))
		}
	}
	if b := AppendBody(nil, 1, nil, 0); len(b) != 0 {
		t.Errorf("an empty body has %d bytes", len(b))
	}
}

func TestNamesAreBounded(t *testing.T) {
	var n Names
	for i := range 10 * maxNames {
		n.get([]byte{byte(i), byte(i >> 8)})
	}
	if len(n.known) > maxNames {
		t.Errorf("%d names are kept", len(n.known))
	}
	kept := len(n.known)
	if long := strings.Repeat("x", maxNameBytes+1); n.get([]byte(long)) != long || len(n.known) != kept {
		t.Error("a long string is kept")
	}
	if n.get([]byte(strings.Repeat("x", maxNameBytes))); len(n.known) == kept {
		t.Error("the longest name is not kept")
	}
}

func TestReplyCodes(t *testing.T) {
	for c, hard := range map[ReplyCode]bool{NotFound: false, PreconditionFailed: false, ConnectionForced: true, NotAllowed: true, 999: false} {
		if c.Hard() != hard {
			t.Errorf("%s", c)
		}
	}
	if s := fault(NotFound, "no queue '%s'", "q").Error(); s != "NOT_FOUND - no queue 'q'" {
		t.Error(s)
	}
}
