package logtail

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"unicode/utf8"
)

// handler passes records to the log's own handler, and keeps them.
type handler struct {
	tail *Tail
	next slog.Handler
	// text writes the attributes alone, with the groups and attributes that the logger has added.
	text slog.Handler
	out  *buffer
}

// buffer is where text handlers of one log write, one record at a time.
type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

// Handler returns a handler that passes records on to next and keeps them.
func (t *Tail) Handler(next slog.Handler) slog.Handler {
	out := &buffer{}
	return &handler{tail: t, next: next, out: out, text: slog.NewTextHandler(out, &slog.HandlerOptions{
		Level: slog.LevelDebug - 100, ReplaceAttr: withoutHead, // next decides about levels
	})}
}

// withoutHead leaves out what a Line has fields for.
func withoutHead(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
		return slog.Attr{}
	}
	return a
}

// Enabled reports whether the log takes a level.
func (h *handler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

// Handle passes a record on and keeps it.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	h.out.mu.Lock()
	h.out.Reset()
	err := h.text.Handle(ctx, r)
	attributes := cut(string(bytes.TrimSpace(h.out.Bytes())))
	if h.out.Cap() > 4*MaxTextBytes { // one long line must not stay in memory
		h.out.Buffer = bytes.Buffer{}
	}
	h.out.mu.Unlock()
	if err == nil {
		h.tail.add(Line{At: r.Time, Level: r.Level, Message: cut(r.Message), Attributes: attributes})
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs returns a handler whose records have further attributes.
func (h *handler) WithAttrs(as []slog.Attr) slog.Handler {
	return &handler{tail: h.tail, out: h.out, next: h.next.WithAttrs(as), text: h.text.WithAttrs(as)}
}

// WithGroup returns a handler whose further attributes are in a group.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{tail: h.tail, out: h.out, next: h.next.WithGroup(name), text: h.text.WithGroup(name)}
}

// cut shortens a text to MaxTextBytes, at the end of a character.
func cut(s string) string {
	if len(s) <= MaxTextBytes {
		return s
	}
	end := MaxTextBytes
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
