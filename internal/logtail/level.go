package logtail

import (
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// AnyLevel is below the levels of all lines.
const AnyLevel = slog.Level(-1 << 10)

// LevelNames are the levels that the settings know, in words.
const LevelNames = "debug, info, warn or error"

// NameOf names a level as in the settings.
func NameOf(l slog.Level) string { return strings.ToLower(l.String()) }

// ParseLevel reads a level as the settings have it; false: it is not one of LevelNames.
func ParseLevel(name string) (slog.Level, bool) {
	for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if NameOf(l) == name {
			return l, true
		}
	}
	return 0, false
}

// Level is the level of a log: that of the settings, or for a while another one. All methods may be called
// concurrently.
type Level struct {
	now atomic.Int64 // slog.Level; what handlers look at

	mu       sync.Mutex
	settings slog.Level
	until    time.Time // zero: the settings' level is in force
	end      *time.Timer
}

// Level returns the level in force; it makes a Level an slog.Leveler.
func (l *Level) Level() slog.Level { return slog.Level(l.now.Load()) }

// Settings takes over the level of the settings. It does not end another one's time.
func (l *Level) Settings(level slog.Level) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settings = level
	if l.until.IsZero() {
		l.now.Store(int64(level))
	}
}

// SetFor puts another level in force for a time, after which that of the settings is again, so that nobody has to
// remember a log that is too loud. A time of 0 ends it at once.
func (l *Level) SetFor(level slog.Level, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil {
		l.end.Stop()
	}
	if d <= 0 {
		l.until, l.end = time.Time{}, nil
		l.now.Store(int64(l.settings))
		return
	}
	until := time.Now().Add(d)
	l.until = until
	l.now.Store(int64(level))
	l.end = time.AfterFunc(d, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.until.Equal(until) { // no later call has taken its place
			l.until = time.Time{}
			l.now.Store(int64(l.settings))
		}
	})
}

// Now returns the level in force, that of the settings, and when the latter is in force again; zero: it is.
func (l *Level) Now() (now, settings slog.Level, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Level(), l.settings, l.until
}
