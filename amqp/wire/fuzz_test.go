package wire

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/quorate/quorate/message"
)

// A frame from any input is read or refused, and a frame that was read is written the same.
func FuzzFrame(f *testing.F) {
	f.Add(AppendHeartbeat(nil), uint32(4096))
	f.Add(AppendMethod(nil, 1, &BasicAck{DeliveryTag: 1}), uint32(0))
	f.Fuzz(func(t *testing.T, b []byte, frameMax uint32) {
		fr, n, need, err := ParseFrame(b, frameMax)
		switch {
		case err != nil && (n != 0 || need != 0), err == nil && n == 0 && need <= len(b), n > len(b):
			t.Fatalf("%d used, %d wanted, %d there, %v", n, need, len(b), err)
		case n > 0:
			back := AppendFrameHead(nil, fr.Type, fr.Channel, len(fr.Payload))
			if back = AppendFrameEnd(append(back, fr.Payload...)); !bytes.Equal(back, b[:n]) {
				t.Fatalf("%x came back as %x", b[:n], back)
			}
		}
	})
}

// A method that can be read can be written, and then reads the same.
func FuzzMethod(f *testing.F) {
	for _, m := range []Method{
		&ConnectionStartOK{ClientProperties: allKinds(), Mechanism: "PLAIN", Response: "\x00u\x00p", Locale: "en_US"},
		&QueueDeclare{Queue: "q", Arguments: nested(3)}, &BasicPublish{Exchange: "x"}, &BasicConsume{ConsumerTag: "c"},
	} {
		b := AppendMethod(nil, 1, m)[frameHead:]
		f.Add(b[:len(b)-1])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseMethod(b, nil)
		if err != nil {
			return
		}
		out := AppendMethod(nil, 1, m)[frameHead:]
		back, err := ParseMethod(out[:len(out)-1], nil)
		if err != nil {
			t.Fatalf("%+v cannot be read again: %v", m, err)
		}
		if again := AppendMethod(nil, 1, back)[frameHead:]; !bytes.Equal(out, again) {
			t.Fatalf("%+v came back as %+v", m, back)
		}
	})
}

// The same holds for a content header.
func FuzzContentHeader(f *testing.F) {
	for _, m := range []message.Message{full(), {}} {
		b := AppendContentHeader(nil, 1, &m, m.Headers)[frameHead:]
		f.Add(b[:len(b)-1])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, back message.Message
		if _, err := ParseContentHeader(b, &m); err != nil {
			return
		}
		out := AppendContentHeader(nil, 1, &m, m.Headers)[frameHead:]
		if _, err := ParseContentHeader(out[:len(out)-1], &back); err != nil {
			t.Fatalf("%+v cannot be read again: %v", m, err)
		}
		again := AppendContentHeader(nil, 1, &back, back.Headers)[frameHead:]
		if !reflect.DeepEqual(m.Properties, back.Properties) || !bytes.Equal(out, again) {
			t.Fatalf("%+v came back as %+v", m, back)
		}
	})
}

// The same holds for a table, because the response of AMQPLAIN is one.
func FuzzTable(f *testing.F) {
	for _, t := range []message.Table{allKinds(), nested(3), {}} {
		f.Add(appendTable(nil, t)[4:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		table, err := ParseTable(b)
		if err != nil {
			return
		}
		out := appendTable(nil, table)[4:]
		back, err := ParseTable(out)
		if err != nil {
			t.Fatalf("%v cannot be read again: %v", table, err)
		}
		if again := appendTable(nil, back)[4:]; !bytes.Equal(out, again) {
			t.Fatalf("%v came back as %v", table, back)
		}
	})
}
