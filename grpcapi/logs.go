package grpcapi

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/internal/logtail"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

const (
	// defaultLogLines is how many lines TailLog begins with if the caller names no number.
	defaultLogLines = 100
	// DefaultLogLevelFor is how long another level of the log is in force if the caller names no time.
	DefaultLogLevelFor = 15 * time.Minute
	// MaxLogLevelFor is how long it is in force at most.
	MaxLogLevelFor = 24 * time.Hour
	// logBatch is the maximum number of lines in one response.
	logBatch = 200
)

// logsServer serves Logs; it keeps no state.
type logsServer struct {
	brokerv1.UnimplementedLogsServer
	node  string
	lines *logtail.Tail
	level *logtail.Level
}

// TailLog sends the newest lines and, if asked to, new ones.
func (s *logsServer) TailLog(req *brokerv1.TailLogRequest, stream grpc.ServerStreamingServer[brokerv1.TailLogResponse]) error {
	ctx, cancel := living(stream.Context())
	defer cancel()
	level := logtail.AnyLevel
	if req.GetLevel() != "" {
		var err error
		if level, err = fromLevel(req.GetLevel()); err != nil {
			return err
		}
	}
	limit := int(req.GetLimit())
	if limit == 0 {
		limit = defaultLogLines
	}
	lines, last := s.lines.Newest(min(limit, logtail.Lines), level)
	for first := true; ; first = false {
		if err := s.send(stream, lines, first); err != nil {
			return err
		}
		if !req.GetFollow() {
			return nil
		}
		var err error
		if lines, last, err = s.lines.After(ctx, last, level); err != nil {
			return context.Cause(ctx)
		}
	}
}

// send sends lines in responses of bounded size; without lines nothing, unless it is the first response.
func (s *logsServer) send(stream grpc.ServerStreamingServer[brokerv1.TailLogResponse], lines []logtail.Line, first bool) error {
	for first || len(lines) > 0 {
		n := min(len(lines), logBatch)
		if err := stream.Send(&brokerv1.TailLogResponse{Node: s.node, Lines: toLogLines(lines[:n])}); err != nil {
			return err
		}
		lines, first = lines[n:], false
	}
	return nil
}

func toLogLines(lines []logtail.Line) []*brokerv1.LogLine {
	out := make([]*brokerv1.LogLine, len(lines))
	for i := range lines {
		x := &lines[i]
		out[i] = &brokerv1.LogLine{
			Number: x.Number, AtMs: x.At.UnixMilli(), Level: logtail.NameOf(x.Level), Message: valid(x.Message), Attributes: valid(x.Attributes),
		}
	}
	return out
}

// GetLogLevel returns the level in force.
func (s *logsServer) GetLogLevel(context.Context, *brokerv1.GetLogLevelRequest) (*brokerv1.GetLogLevelResponse, error) {
	now, settings, until := s.level.Now()
	return &brokerv1.GetLogLevelResponse{Node: s.node, Level: logtail.NameOf(now), Settings: logtail.NameOf(settings), UntilMs: unixMs(until)}, nil
}

// SetLogLevel puts another level in force for a time.
func (s *logsServer) SetLogLevel(ctx context.Context, req *brokerv1.SetLogLevelRequest) (*brokerv1.SetLogLevelResponse, error) {
	ms := req.GetDurationMs()
	if most := MaxLogLevelFor.Milliseconds(); ms < 0 || ms > most {
		return nil, invalid("log", "duration_ms", strconv.FormatInt(ms, 10), "want 0 (default) to "+strconv.FormatInt(most, 10))
	}
	before, _, _ := s.level.Now()
	if req.GetLevel() == "" {
		s.level.SetFor(0, 0)
	} else {
		level, err := fromLevel(req.GetLevel())
		if err != nil {
			return nil, err
		}
		d := time.Duration(ms) * time.Millisecond
		if d == 0 {
			d = DefaultLogLevelFor
		}
		s.level.SetFor(level, d)
	}
	now, settings, until := s.level.Now()
	audit.NotesOf(ctx).Note(audit.Change{Field: "level", Before: logtail.NameOf(before), After: logtail.NameOf(now)})
	return &brokerv1.SetLogLevelResponse{Node: s.node, Level: logtail.NameOf(now), Settings: logtail.NameOf(settings), UntilMs: unixMs(until)}, nil
}

// unixMs is 0 for the zero time.
func unixMs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// fromLevel reads a level as the settings have them.
func fromLevel(text string) (slog.Level, error) {
	l, is := logtail.ParseLevel(text)
	if !is {
		return 0, invalid("log", "level", text, "want "+logtail.LevelNames)
	}
	return l, nil
}
