package tracing

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/message"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
)

// W3C Trace Context: a malformed traceparent counts as none, and so does one that its sender does not sample.
func TestParent(t *testing.T) {
	for p, want := range map[string]bool{
		"00-" + traceID + "-" + spanID + "-01":                  true,
		"00-" + traceID + "-" + spanID + "-03":                  true,
		"00-" + traceID + "-" + spanID + "-00":                  false,
		"00-" + traceID + "-" + spanID + "-02":                  false,
		"00-" + traceID + "-" + spanID + "-01-more":             false,
		"01-" + traceID + "-" + spanID + "-01-more":             true,
		"01-" + traceID + "-" + spanID + "-01more":              false,
		"ff-" + traceID + "-" + spanID + "-01":                  false,
		"0g-" + traceID + "-" + spanID + "-01":                  false,
		"00-" + strings.ToUpper(traceID) + "-" + spanID + "-01": false,
		"00-" + strings.Repeat("0", 32) + "-" + spanID + "-01":  false,
		"00-" + traceID + "-" + strings.Repeat("0", 16) + "-01": false,
		"00-" + traceID + "-" + spanID + "-0":                   false,
		"00-" + traceID + "-" + spanID + "-+1":                  false,
		"00_" + traceID + "-" + spanID + "-01":                  false,
		"":                                                      false,
	} {
		for kind, v := range map[string]message.Value{"string": message.String(p), "bytes": message.Bytes([]byte(p))} {
			sc, sampled := parentOf(message.Table{{Name: "x"}, {Name: "traceparent", Value: v}})
			if sampled != want || sc.IsValid() != want {
				t.Errorf("%q as %s is sampled: %t, want %t", p, kind, sampled, want)
			}
			if want && (sc.TraceID().String() != traceID || sc.SpanID().String() != spanID || !sc.IsRemote()) {
				t.Errorf("%q as %s: %+v", p, kind, sc)
			}
		}
	}
	if _, sampled := parentOf(message.Table{{Name: "traceparent", Value: message.Int64(1)}}); sampled {
		t.Error("a number is a traceparent")
	}
}

// The state continues unless it is malformed or larger than the limit, and its faults do not end the trace.
func TestParentState(t *testing.T) {
	for s, want := range map[string]string{
		"a=1,b=2": "a=1,b=2",
		"a=" + strings.Repeat("x", MaxStateBytes): "",
		"a=" + strings.Repeat("x", 200):           "a=" + strings.Repeat("x", 200),
		"nonsense":                                "",
	} {
		sc, sampled := parentOf(message.Table{
			{Name: "tracestate", Value: message.String(s)},
			{Name: "traceparent", Value: message.String("00-" + traceID + "-" + spanID + "-01")},
		})
		if got := sc.TraceState().String(); !sampled || got != want {
			t.Errorf("state %q: sampled %t with %q, want %q", s, sampled, got, want)
		}
	}
}

// A message that is not traced costs no allocation, whatever its headers.
func TestUntracedAllocatesNothing(t *testing.T) {
	on, off := &Tracer{}, (*Tracer)(nil)
	for name, row := range map[string]struct {
		t *Tracer
		h message.Table
	}{
		"off":        {off, message.Table{{Name: "traceparent", Value: message.String("00-" + traceID + "-" + spanID + "-01")}}},
		"no headers": {on, nil},
		"other":      {on, message.Table{{Name: "a", Value: message.Int64(1)}}},
		"unsampled":  {on, message.Table{{Name: "traceparent", Value: message.String("00-" + traceID + "-" + spanID + "-00")}}},
	} {
		m := message.Message{Headers: row.h}
		p := Publication{Headers: row.h, Properties: &m.Properties}
		d := Delivery{Message: &m}
		if n := testing.AllocsPerRun(10_000, func() {
			if _, traced := row.t.Deliver(&d); traced || row.t.Publish(&p) != nil || row.t.Origin(row.h) != nil {
				t.Error(name, ": is traced")
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
}
