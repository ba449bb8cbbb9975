package raftfsm

import (
	"context"
	"io"
	"log"
	"log/slog"
	"time"

	"github.com/hashicorp/go-hclog"
)

// raftLogger writes what raft logs to a slog.Logger. Raft logs ordinary elections
// at Info and Warn; those are Debug here and its errors, which are mostly
// requests to a peer that is away, Info: the group reports what matters itself.
type raftLogger struct {
	to      *slog.Logger
	name    string
	implied []any
}

var _ hclog.Logger = (*raftLogger)(nil)

func newRaftLogger(to *slog.Logger) *raftLogger { return &raftLogger{to: to} }

// slogLevel shows raft's errors as information: what a node has to do about them it logs itself.
func slogLevel(l hclog.Level) slog.Level {
	switch l {
	case hclog.Error:
		return slog.LevelInfo
	case hclog.Off:
		return slog.LevelError
	default:
		return slog.LevelDebug
	}
}

// Log implements hclog.Logger.
func (l *raftLogger) Log(level hclog.Level, msg string, args ...any) {
	ctx := context.Background()
	to := slogLevel(level)
	if !l.to.Enabled(ctx, to) {
		return
	}
	r := slog.NewRecord(time.Now(), to, "raft: "+msg, 0)
	r.Add(l.implied...)
	r.Add(args...)
	// A logger has nowhere to report its own failure to.
	_ = l.to.Handler().Handle(ctx, r)
}

// Trace implements hclog.Logger.
func (l *raftLogger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }

// Debug implements hclog.Logger.
func (l *raftLogger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }

// Info implements hclog.Logger.
func (l *raftLogger) Info(msg string, args ...any) { l.Log(hclog.Info, msg, args...) }

// Warn implements hclog.Logger.
func (l *raftLogger) Warn(msg string, args ...any) { l.Log(hclog.Warn, msg, args...) }

// Error implements hclog.Logger.
func (l *raftLogger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

func (l *raftLogger) enabled(level hclog.Level) bool {
	return l.to.Enabled(context.Background(), slogLevel(level))
}

// IsTrace implements hclog.Logger.
func (l *raftLogger) IsTrace() bool { return l.enabled(hclog.Trace) }

// IsDebug implements hclog.Logger.
func (l *raftLogger) IsDebug() bool { return l.enabled(hclog.Debug) }

// IsInfo implements hclog.Logger.
func (l *raftLogger) IsInfo() bool { return l.enabled(hclog.Info) }

// IsWarn implements hclog.Logger.
func (l *raftLogger) IsWarn() bool { return l.enabled(hclog.Warn) }

// IsError implements hclog.Logger.
func (l *raftLogger) IsError() bool { return l.enabled(hclog.Error) }

// ImpliedArgs implements hclog.Logger.
func (l *raftLogger) ImpliedArgs() []any { return l.implied }

// With implements hclog.Logger.
func (l *raftLogger) With(args ...any) hclog.Logger {
	implied := append(append([]any(nil), l.implied...), args...)
	return &raftLogger{to: l.to, name: l.name, implied: implied}
}

// Name implements hclog.Logger.
func (l *raftLogger) Name() string { return l.name }

// Named implements hclog.Logger.
func (l *raftLogger) Named(name string) hclog.Logger {
	return &raftLogger{to: l.to, name: name, implied: l.implied}
}

// ResetNamed implements hclog.Logger.
func (l *raftLogger) ResetNamed(name string) hclog.Logger { return l.Named(name) }

// SetLevel implements hclog.Logger; the level is the slog handler's.
func (l *raftLogger) SetLevel(hclog.Level) {}

// GetLevel implements hclog.Logger.
func (l *raftLogger) GetLevel() hclog.Level { return hclog.NoLevel }

// StandardLogger implements hclog.Logger.
func (l *raftLogger) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return slog.NewLogLogger(l.to.Handler(), slog.LevelDebug)
}

// StandardWriter implements hclog.Logger.
func (l *raftLogger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer {
	return slog.NewLogLogger(l.to.Handler(), slog.LevelDebug).Writer()
}
