package main

import (
	"io"
	"log/slog"
	"os"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"

	"github.com/quorate/quorate/cmd/node/config"
	"github.com/quorate/quorate/internal/logtail"
)

func terminal(f *os.File) bool { return isatty.IsTerminal(f.Fd()) }

// newLogger returns the node's logger, whose level can change and whose newest lines are kept. The configuration must
// be valid.
func newLogger(cfg *config.Config, level *logtail.Level, lines *logtail.Tail, w io.Writer, tty bool) *slog.Logger {
	if l, err := cfg.Level(); err == nil {
		level.Settings(l)
	}
	return slog.New(lines.Handler(newLogHandler(cfg.Log.Format, level, w, tty)))
}

// newLogHandler returns what writes the log in a format.
func newLogHandler(format string, level slog.Leveler, w io.Writer, tty bool) slog.Handler {
	options := &slog.HandlerOptions{Level: level}
	switch {
	case format == "json":
		options.ReplaceAttr = inSeconds
		return slog.NewJSONHandler(w, options)
	case format == "auto" && tty:
		return tint.NewTextHandler(w, &tint.Options{Level: level})
	default:
		return slog.NewTextHandler(w, options)
	}
}

// inSeconds converts durations to seconds and marks their keys with the unit; in JSON they would be
// numbers of nanoseconds.
func inSeconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() != slog.KindDuration {
		return a
	}
	return slog.Float64(a.Key+"_seconds", a.Value.Duration().Seconds())
}
