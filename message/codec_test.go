package message_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/quorate/quorate/message"
)

func fixtures() map[string]*message.Message {
	return map[string]*message.Message{
		"empty": {},
		"present-and-empty": {Properties: message.Properties{
			Has: message.HasContentType | message.HasHeaders | message.HasPriority | message.HasTimestamp,
		}},
		"plain": plain(4),
		"full":  full(),
	}
}

// The stored form of version 1 never changes: these bytes are on disks.
func TestGoldenBytes(t *testing.T) {
	datadriven.RunTest(t, "testdata/golden.txt", func(t *testing.T, d *datadriven.TestData) string {
		m := fixtures()[d.Cmd]
		if m == nil {
			d.Fatalf(t, "no fixture %q", d.Cmd)
		}
		return hex.Dump(message.Append(nil, m))
	})
}

func TestRoundTrip(t *testing.T) {
	for name, m := range fixtures() {
		t.Run(name, func(t *testing.T) {
			b := message.Append([]byte("before"), m)
			if !bytes.HasPrefix(b, []byte("before")) {
				t.Fatalf("Append changed what was there")
			}
			b = b[len("before"):]
			got, err := message.Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			want := *m
			want.Has = m.Present()
			if len(want.Body) == 0 {
				want.Body = []byte{}
			}
			if !message.TableValue(got.Headers).Equal(message.TableValue(want.Headers)) {
				t.Errorf("headers %v, want %v", got.Headers, want.Headers)
			}
			got.Headers, want.Headers = nil, nil
			if !reflect.DeepEqual(got, &want) {
				t.Errorf("decoded %+v, want %+v", got, &want)
			}
			if n, err := message.BodySize(b); err != nil || n != len(m.Body) {
				t.Errorf("BodySize = %d, %v; want %d", n, err, len(m.Body))
			}
		})
	}
}

// A message that was cut anywhere, or has a byte too many, is refused.
func TestDecodeCut(t *testing.T) {
	b := message.Append(nil, full())
	for n := range len(b) {
		if _, err := message.Decode(b[:n]); err == nil {
			t.Fatalf("decoded the first %d of %d bytes", n, len(b))
		}
		if _, err := message.BodySize(b[:n]); err == nil {
			t.Fatalf("BodySize accepted the first %d of %d bytes", n, len(b))
		}
	}
	if _, err := message.Decode(append(b, 0)); err == nil {
		t.Fatal("decoded with a byte too many")
	}
}

func TestDecodeNamesTheFault(t *testing.T) {
	nested := message.Null()
	for range message.MaxTableDepth + 1 {
		nested = message.Array(nested)
	}
	wide := make(message.Table, message.MaxHeaders+1)
	for i := range wide {
		wide[i].Name = fmt.Sprint(i)
	}
	stored := func(m message.Message) []byte { return message.Append(nil, &m) }
	edit := func(b []byte, at int, v byte) []byte { b = bytes.Clone(b); b[at] = v; return b }
	empty := stored(message.Message{})
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"version":  {edit(empty, 0, 9), "format version 9, this build reads version 1"},
		"length":   {edit(empty, 5, 1), "its prefix says"},
		"presence": {edit(empty, 10, 0x80), "presence bits at byte 11: undefined bits set"},
		"parts":    {edit(empty, 12, 0x80), "parts at byte 13: undefined bits set"},
		"depth":    {stored(message.Message{Headers: message.Table{{Name: "n", Value: nested}}}), "more than 64 levels"},
		"fields":   {stored(message.Message{Headers: wide}), "1025 fields, the limit is 1024"},
		"bytes": {stored(message.Message{Headers: message.Table{{
			Name: "n", Value: message.String(strings.Repeat("x", message.MaxHeaderBytes)),
		}}}), "the limit is 131072"},
		"deaths": {stored(message.Message{Deaths: make([]message.Death, message.MaxDeaths+1)}), "101 entries"},
		"bcc":    {stored(message.Message{RoutingKeys: []string{"a"}, BCCCount: 2}), "2 of 1 routing keys"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := message.Decode(c.b)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestDecodeTable(t *testing.T) {
	b := append(message.AppendTable(nil, everyValue()), "rest"...)
	got, rest, err := message.DecodeTable(b)
	if err != nil || string(rest) != "rest" {
		t.Fatalf("rest %q, error %v", rest, err)
	}
	if !message.TableValue(got).Equal(message.TableValue(everyValue())) {
		t.Errorf("decoded %v, want %v", got, everyValue())
	}
}

// Decode never panics, and what it accepts has exactly one byte form.
func FuzzDecode(f *testing.F) {
	for _, m := range fixtures() {
		f.Add(message.Append(nil, m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := message.Decode(b)
		if err != nil {
			return
		}
		if again := message.Append(nil, m); !bytes.Equal(again, b) {
			t.Fatalf("decoded %x\nappended %x", b, again)
		}
		if n, err := message.BodySize(b); err != nil || n != len(m.Body) {
			t.Fatalf("BodySize = %d, %v; want %d", n, err, len(m.Body))
		}
		message.DeathHeaders(m)
	})
}

// FuzzTable does the same for tables that other formats hold.
func FuzzTable(f *testing.F) {
	f.Add(message.AppendTable(nil, everyValue()))
	f.Fuzz(func(t *testing.T, b []byte) {
		table, rest, err := message.DecodeTable(b)
		if err != nil {
			return
		}
		if again := append(message.AppendTable(nil, table), rest...); !bytes.Equal(again, b) {
			t.Fatalf("decoded %x\nappended %x", b, again)
		}
		if !table.EqualClass(table) && table.String() == "" {
			t.Fatal("a table is not itself")
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	for name, m := range map[string]*message.Message{"plain-1KB": plain(1024), "full": full()} {
		b.Run(name, func(b *testing.B) {
			buf := message.Append(nil, m)
			b.SetBytes(int64(len(buf)))
			b.ReportAllocs()
			for b.Loop() {
				buf = message.Append(buf[:0], m)
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, m := range map[string]*message.Message{"plain-1KB": plain(1024), "full": full()} {
		b.Run(name, func(b *testing.B) {
			buf := message.Append(nil, m)
			b.SetBytes(int64(len(buf)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := message.Decode(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkBodySize(b *testing.B) {
	buf := message.Append(nil, plain(1024))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := message.BodySize(buf); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheckLimits(b *testing.B) {
	for name, m := range map[string]*message.Message{"plain-1KB": plain(1024), "full": full()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := message.CheckLimits(m, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
