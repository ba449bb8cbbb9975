package logtail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

func logger(out *bytes.Buffer) (*slog.Logger, *Tail) {
	t := New()
	return slog.New(t.Handler(slog.NewTextHandler(out, nil))), t
}

// Lines reach the log and the tail alike, with groups and attributes of loggers and without what the level leaves out.
func TestLines(t *testing.T) {
	var out bytes.Buffer
	log, tail := logger(&out)
	log.With("node", "n1").WithGroup("disk").Warn("it is nearly full", "free", 5, "time", "kept")
	log.Debug("left out")
	log.Error("it broke", "error", errors.New(`a "quoted" text`))
	lines, last := tail.Newest(10, slog.LevelInfo)
	if last != 2 || len(lines) != 2 {
		t.Fatalf("%d lines, the last is %d: %+v", len(lines), last, lines)
	}
	if x := lines[0]; x.Number != 1 || x.Level != slog.LevelWarn || x.Message != "it is nearly full" || x.Attributes != "node=n1 disk.free=5 disk.time=kept" || time.Since(x.At) > time.Minute {
		t.Errorf("%+v", x)
	}
	if x := lines[1]; x.Attributes != `error="a \"quoted\" text"` {
		t.Errorf("%+v", x)
	}
	if n := strings.Count(out.String(), "\n"); n != 2 {
		t.Errorf("the log has %d lines:\n%s", n, &out)
	}
	if lines, _ := tail.Newest(1, slog.LevelInfo); len(lines) != 1 || lines[0].Number != 2 {
		t.Errorf("the newest: %+v", lines)
	}
	if lines, _ := tail.Newest(10, slog.LevelError); len(lines) != 1 {
		t.Errorf("errors: %+v", lines)
	}
}

// A long text is cut at a character; a long log keeps the newest lines.
func TestBounds(t *testing.T) {
	var out bytes.Buffer
	log, tail := logger(&out)
	long := slog.NewRecord(time.Now(), slog.LevelInfo, strings.Repeat("ä", MaxTextBytes), 0)
	long.Add("x", strings.Repeat("ö", MaxTextBytes))
	if err := log.Handler().Handle(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	lines, _ := tail.Newest(1, slog.LevelInfo)
	for _, s := range []string{lines[0].Message, lines[0].Attributes} {
		if len(s) > MaxTextBytes+len("…") || !utf8.ValidString(s) || !strings.HasSuffix(s, "…") {
			t.Errorf("%d bytes, valid: %v", len(s), utf8.ValidString(s))
		}
	}
	for i := range 2 * Lines {
		log.Info("line", "n", i)
	}
	lines, last, err := tail.After(t.Context(), 5, slog.LevelInfo)
	if err != nil || len(lines) != Lines || last != 2*Lines+1 || lines[0].Number != last-Lines+1 || lines[Lines-1].Number != last {
		t.Errorf("%d lines to %d: %v", len(lines), last, err)
	}
}

// A reader waits for news, also of lines that its level leaves out, and goes with its context.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log, tail := logger(&out)
		got := make(chan string, 1)
		go func() {
			lines, last, err := tail.After(t.Context(), 0, slog.LevelWarn)
			got <- fmt.Sprint(len(lines), last, err)
		}()
		synctest.Wait()
		log.Info("quiet")
		if s := <-got; s != "0 1 <nil>" {
			t.Error(s)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, last, err := tail.After(ctx, 1, slog.LevelInfo); !errors.Is(err, context.DeadlineExceeded) || last != 1 {
			t.Errorf("%d, %v", last, err)
		}
	})
}

// Loggers that share a tail write whole lines.
func TestConcurrently(t *testing.T) {
	var out bytes.Buffer
	log, tail := logger(&out)
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			mine := log.With("writer", w)
			for range 100 {
				mine.Info("line", "of", w)
			}
		})
	}
	all.Wait()
	lines, last := tail.Newest(Lines, slog.LevelInfo)
	for i, x := range lines {
		var writer, of int
		if n, err := fmt.Sscanf(x.Attributes, "writer=%d of=%d", &writer, &of); n != 2 || err != nil || writer != of || x.Number != uint64(i+1) {
			t.Fatalf("%+v: %v", x, err)
		}
	}
	if last != 800 {
		t.Error(last)
	}
}

// Another level is in force for a time; settings that change meanwhile wait for its end.
func TestLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Level
		is := func(what string, want slog.Level, left time.Duration) {
			t.Helper()
			synctest.Wait()
			now, _, until := l.Now()
			if now != want || l.Level() != want || until.IsZero() != (left == 0) || left > 0 && time.Until(until) != left {
				t.Errorf("%s: %v until %v, want %v for %v", what, now, until, want, left)
			}
		}
		l.Settings(slog.LevelWarn)
		is("settings", slog.LevelWarn, 0)
		l.SetFor(slog.LevelDebug, time.Minute)
		is("debug", slog.LevelDebug, time.Minute)
		time.Sleep(30 * time.Second)
		l.Settings(slog.LevelInfo)
		is("new settings", slog.LevelDebug, 30*time.Second)
		l.SetFor(slog.LevelError, time.Minute)
		time.Sleep(45 * time.Second)
		is("the first one's end has passed", slog.LevelError, 15*time.Second)
		time.Sleep(15 * time.Second)
		is("ended", slog.LevelInfo, 0)
		l.SetFor(slog.LevelDebug, time.Minute)
		l.SetFor(0, 0)
		is("ended at once", slog.LevelInfo, 0)
		time.Sleep(2 * time.Minute)
		is("later", slog.LevelInfo, 0)
	})
}
