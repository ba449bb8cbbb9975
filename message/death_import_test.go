package message_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/message"
)

// G-11: what DeathHeaders writes is read back, except for times that it does not have.
func TestImportDeaths(t *testing.T) {
	from := full()
	m := &message.Message{Headers: append(message.Table{{Name: "own", Value: message.Int8(1)}}, message.DeathHeaders(from)...)}
	if !message.ImportDeaths(m) {
		t.Fatalf("headers %v were not read", m.Headers)
	}
	if got := m.Headers.String(); got != "{own=1}" {
		t.Errorf("left of the headers: %s", got)
	}
	if got, want := message.DeathHeaders(m).String(), message.DeathHeaders(from).String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	stored, err := message.Decode(message.Append(nil, m))
	if err != nil || len(stored.Deaths) != len(from.Deaths) {
		t.Errorf("%v, %v", stored, err)
	}
}

// G-11: counts end at the highest one that a client can read, and so do their sums.
func TestImportDeathsSaturates(t *testing.T) {
	entry := func(queue string, count message.Value) message.Value {
		return message.TableValue(message.Table{
			{Name: "queue", Value: message.String(queue)},
			{Name: "reason", Value: message.String("expired")},
			{Name: "exchange", Value: message.String("")},
			{Name: "count", Value: count},
			{Name: "routing-keys", Value: message.Array(message.String("k"))},
		})
	}
	m := &message.Message{Headers: message.Table{{Name: "x-death", Value: message.Array(
		entry("a", message.Uint64(math.MaxUint64)), entry("b", message.Int64(math.MaxInt64)), entry("c", message.Int8(1)),
	)}}}
	if !message.ImportDeaths(m) {
		t.Fatalf("headers %v were not read", m.Headers)
	}
	if got := []uint64{m.Deaths[0].Count, m.Deaths[1].Count, m.Deaths[2].Count}; !slices.Equal(got, []uint64{math.MaxInt64, math.MaxInt64, 1}) {
		t.Errorf("the counts are %d", got)
	}
	// What older builds stored may be above.
	m.Deaths[0].Count = math.MaxUint64
	headers := message.DeathHeaders(m)
	list, _ := headers.Get("x-death")
	entries, _ := list.AsArray()
	first, _ := entries[0].AsTable()
	count, _ := first.Get("count")
	total, _ := headers.Get("x-death-count")
	if want := message.Int64(math.MaxInt64); !count.Equal(want) || !total.Equal(want) {
		t.Errorf("the headers are %v", headers)
	}
}

// G-11: what cannot be read stays a header, and makes no death.
func TestImportDeathsRefuses(t *testing.T) {
	entry := func(change func(message.Table) message.Table) message.Value {
		return message.TableValue(change(message.Table{
			{Name: "queue", Value: message.String("q")},
			{Name: "reason", Value: message.String("expired")},
			{Name: "exchange", Value: message.String("")},
			{Name: "count", Value: message.Int64(2)},
			{Name: "time", Value: message.Timestamp(5)},
			{Name: "routing-keys", Value: message.Array(message.String("k"))},
		}))
	}
	with := func(name string, v message.Value) message.Value {
		return entry(func(t message.Table) message.Table { t.Set(name, v); return t })
	}
	good := entry(func(t message.Table) message.Table { return t })
	if m := (&message.Message{Headers: message.Table{{Name: "x-death", Value: message.Array(good)}}}); !message.ImportDeaths(m) ||
		m.FirstDeath != (message.DeathOrigin{Queue: "q", Reason: "expired"}) || m.Deaths[0].Count != 2 || m.Deaths[0].FirstTimeMs != 5000 {
		t.Fatalf("a good one comes to %+v", m)
	}
	for name, v := range map[string]message.Value{
		"no list":          message.String("x"),
		"empty":            message.Array(),
		"no table":         message.Array(message.Int8(1)),
		"without keys":     message.Array(entry(func(t message.Table) message.Table { return t.Without("routing-keys") })),
		"a key of bytes":   message.Array(with("routing-keys", message.Array(message.Int8(1)))),
		"count 0":          message.Array(with("count", message.Int64(0))),
		"count is text":    message.Array(with("count", message.String("2"))),
		"unknown reason":   message.Array(with("reason", message.String("bored"))),
		"long queue":       message.Array(with("queue", message.String(strings.Repeat("q", 256)))),
		"far time":         message.Array(with("time", message.Timestamp(1<<63))),
		"bad expiration":   message.Array(with("original-expiration", message.String("-1"))),
		"twice the same":   message.Array(good, good),
		"one of two wrong": message.Array(good, message.Null()),
	} {
		m := &message.Message{Headers: message.Table{{Name: "x-death", Value: v}}}
		if message.ImportDeaths(m) || len(m.Deaths) > 0 || len(m.Headers) != 1 {
			t.Errorf("%s: made of it %+v", name, m)
		}
	}
}
