package grpcapi

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/internal/logtail"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// logStream hands what is sent to a test.
type logStream struct {
	grpc.ServerStreamingServer[brokerv1.TailLogResponse]
	ctx  context.Context
	sent chan *brokerv1.TailLogResponse
}

func (s *logStream) Context() context.Context { return s.ctx }

func (s *logStream) Send(r *brokerv1.TailLogResponse) error {
	select {
	case s.sent <- r:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// leveled discards what its level takes.
type leveled struct {
	slog.Handler
	level slog.Leveler
}

func (l leveled) Enabled(_ context.Context, level slog.Level) bool { return level >= l.level.Level() }

func newLogs() (*logsServer, *slog.Logger) {
	s := &logsServer{node: "n1", lines: logtail.New(), level: &logtail.Level{}}
	return s, slog.New(s.lines.Handler(leveled{slog.DiscardHandler, s.level}))
}

// A tail begins with the newest lines, in pieces, and continues with new ones of its level.
func TestTailLog(t *testing.T) {
	s, log := newLogs()
	for i := range logBatch + 50 {
		log.Warn("before", "n", i)
	}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), lifeKey{}, t.Context()))
	stream := &logStream{ctx: ctx, sent: make(chan *brokerv1.TailLogResponse)}
	ended := make(chan error, 1)
	go func() {
		ended <- s.TailLog(&brokerv1.TailLogRequest{Level: "warn", Limit: logBatch + 10, Follow: true}, stream)
	}()
	first, second := <-stream.sent, <-stream.sent
	if len(first.GetLines()) != logBatch || len(second.GetLines()) != 10 || first.GetNode() != "n1" ||
		first.GetLines()[0].GetNumber() != 41 || second.GetLines()[9].GetAttributes() != "n="+strconv.Itoa(logBatch+49) {
		t.Errorf("%d and %d lines, the first is %v", len(first.GetLines()), len(second.GetLines()), first.GetLines()[0])
	}
	log.Info("too quiet")
	log.Error("new", "why", "it broke")
	if x := (<-stream.sent).GetLines(); len(x) != 1 || x[0].GetMessage() != "new" || x[0].GetLevel() != "error" || x[0].GetAttributes() != `why="it broke"` {
		t.Errorf("%v", x)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Without lines there is an answer at once; a level that is none is refused.
func TestTailOfEmptyLog(t *testing.T) {
	s, _ := newLogs()
	stream := &logStream{ctx: context.WithValue(t.Context(), lifeKey{}, t.Context()), sent: make(chan *brokerv1.TailLogResponse, 1)}
	if err := s.TailLog(&brokerv1.TailLogRequest{}, stream); err != nil || len(stream.sent) != 1 {
		t.Errorf("%v, %d responses", err, len(stream.sent))
	}
	e, is := errors.AsType[*failure.Error](s.TailLog(&brokerv1.TailLogRequest{Level: "loud"}, stream))
	if !is || e.Arg != "level" || !strings.Contains(e.Reason, "warn") {
		t.Error(e)
	}
}

// A level is in force for a time; what is no level, or no time, is refused and changes nothing.
func TestSetLogLevel(t *testing.T) {
	s, _ := newLogs()
	s.level.Settings(slog.LevelWarn)
	set := func(level string, ms int64) (*brokerv1.SetLogLevelResponse, error) {
		return s.SetLogLevel(t.Context(), &brokerv1.SetLogLevelRequest{Level: level, DurationMs: ms})
	}
	r, err := set("debug", 0)
	if left := time.Until(time.UnixMilli(r.GetUntilMs())); err != nil || r.GetLevel() != "debug" || r.GetSettings() != "warn" || left > DefaultLogLevelFor || left < DefaultLogLevelFor-time.Minute {
		t.Errorf("%v, %v", r, err)
	}
	for _, x := range []struct {
		level string
		ms    int64
		arg   string
	}{{"loud", 0, "level"}, {"INFO", 0, "level"}, {"info", -1, "duration_ms"}, {"info", MaxLogLevelFor.Milliseconds() + 1, "duration_ms"}} {
		if _, err := set(x.level, x.ms); err == nil || !strings.Contains(err.Error(), x.arg) {
			t.Errorf("%q for %d ms: %v, want a fault of %s", x.level, x.ms, err, x.arg)
		}
	}
	if now, _ := s.GetLogLevel(t.Context(), nil); now.GetLevel() != "debug" {
		t.Error(now)
	}
	if r, err = set("", 0); err != nil || r.GetLevel() != "warn" || r.GetUntilMs() != 0 {
		t.Errorf("%v, %v", r, err)
	}
}
