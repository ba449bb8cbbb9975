package audit

import (
	"context"
	"strconv"
)

// What is noted of acts that are more, or something else, than a command to the catalog.

// Counted notes how many there were of what an act took away, or set going, if there were any.
func (a *Notes) Counted(what string, n uint64) {
	if n > 0 {
		a.Note(Change{Field: what, Before: strconv.FormatUint(n, 10)})
	}
}

// Lost notes the messages that went with a queue.
func (a *Notes) Lost(messages uint64) {
	if a == nil {
		return
	}
	a.mu.Lock()
	changed := a.changed
	a.mu.Unlock()
	if changed {
		a.Counted("messages", messages)
	}
}

// WithoutNotes returns a context in which nothing is noted.
func WithoutNotes(ctx context.Context) context.Context {
	return context.WithValue(ctx, actKey{}, (*Notes)(nil))
}
