package main

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/quorate/quorate/cmd/node/config"
	"github.com/quorate/quorate/internal/logtail"
)

// Programs that read the log get durations as numbers of seconds, wherever they stand; people get them as they are written.
func TestLogDurations(t *testing.T) {
	for format, want := range map[string]string{
		"json": `{"level":"INFO","msg":"m","limit_seconds":0.5,"at":{"waited_seconds":90,"tries":2}}` + "\n",
		"text": "level=INFO msg=m limit=500ms at.waited=1m30s at.tries=2\n",
	} {
		var out bytes.Buffer
		cfg := &config.Config{}
		cfg.Log.Format, cfg.Log.Level = format, "info"
		log := newLogger(cfg, &logtail.Level{}, logtail.New(), &out, false).With("limit", 500*time.Millisecond)
		r := slog.NewRecord(time.Time{}, slog.LevelInfo, "m", 0)
		r.Add(slog.Group("at", "waited", 90*time.Second, "tries", 2))
		if err := log.Handler().Handle(t.Context(), r); err != nil || out.String() != want {
			t.Errorf("%s: %v: %s, want %s", format, err, &out, want)
		}
	}
}
