package event

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

func text(events []Event) string {
	var out []string
	for i := range events {
		e := &events[i]
		if e.Kind == Missed {
			out = append(out, fmt.Sprintf("missed %d", e.Count))
			continue
		}
		out = append(out, fmt.Sprintf("%d %s", e.Seq, e.Name))
	}
	return strings.Join(out, ", ")
}

// ST-5: who reads too slowly learns how many events it missed, and nobody waits for it.
func TestLog(t *testing.T) {
	l := NewLog(3)
	if got := text(l.Read(0, 9)); got != "" {
		t.Errorf("empty: %q", got)
	}
	for _, name := range strings.Fields("a b c d e f g") {
		l.Add(Event{Name: name, Kind: QueueFull})
	}
	for _, row := range []struct {
		after uint64
		limit int
		want  string
	}{
		{0, 9, "missed 3, 4 d, 5 e, 6 f, 7 g"},
		{2, 9, "missed 1, 4 d, 5 e, 6 f, 7 g"},
		{3, 2, "4 d, 5 e"},
		{6, 9, "7 g"},
		{7, 9, ""},
		{100, 9, ""},
	} {
		if got := text(l.Read(row.after, row.limit)); got != row.want {
			t.Errorf("after %d, at most %d: %q, want %q", row.after, row.limit, got, row.want)
		}
	}
	if n := l.Counts()[QueueFull]; n != 7 || l.Last() != 7 {
		t.Errorf("%d events counted, the last is %d", n, l.Last())
	}
	l.Add(Event{Seq: 20, Name: "h"})
	l.Add(Event{Seq: 20, Name: "twice"})
	if got := text(l.Read(7, 9)); got != "20 h" {
		t.Errorf("numbered: %q", got)
	}
	// Those of one command of the log are never cut.
	l.Add(Event{Seq: 30, Name: "i"}, Event{Seq: 30, Name: "j"}, Event{Seq: 31, Name: "k"})
	if got := text(l.Read(20, 1)); got != "30 i, 30 j" {
		t.Errorf("of one number: %q", got)
	}
}

func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(0)
		ctx, cancel := context.WithCancel(t.Context())
		found := make(chan string)
		go func() {
			found <- text(l.Await(ctx, 0, 9))
			found <- text(l.Await(ctx, 1, 9))
		}()
		synctest.Wait()
		l.Add(Event{Name: "a"})
		if got := <-found; got != "1 a" {
			t.Errorf("found %q", got)
		}
		synctest.Wait()
		cancel()
		if got := <-found; got != "" {
			t.Errorf("after the end: %q", got)
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	l := NewLog(0)
	b.ReportAllocs()
	for b.Loop() {
		l.Add(Event{Kind: QueueFull})
	}
}
