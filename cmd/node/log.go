package main

import (
	"io"
	"log/slog"
	"os"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"

	"github.com/quorate/quorate/cmd/node/config"
)

func terminal(f *os.File) bool { return isatty.IsTerminal(f.Fd()) }

// newLogger returns the node's logger, whose level can change. The configuration must be valid.
func newLogger(cfg *config.Config, level *slog.LevelVar, w io.Writer, tty bool) *slog.Logger {
	if l, err := cfg.Level(); err == nil {
		level.Set(l)
	}
	options := &slog.HandlerOptions{Level: level}
	switch {
	case cfg.Log.Format == "json":
		options.ReplaceAttr = inSeconds
		return slog.New(slog.NewJSONHandler(w, options))
	case cfg.Log.Format == "auto" && tty:
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: level}))
	default:
		return slog.New(slog.NewTextHandler(w, options))
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
