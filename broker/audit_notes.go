package broker

import (
	"context"
	"strconv"
)

// What is noted of acts that are more, or something else, than a command to the catalog.

// counted notes how many there were of what an act took away, or set going, if there were any.
func (a *act) counted(what string, n uint64) {
	if n > 0 {
		a.note(Change{Field: what, Before: strconv.FormatUint(n, 10)})
	}
}

// lost notes the messages that went with a queue.
func (a *act) lost(messages uint64) {
	if a == nil {
		return
	}
	a.mu.Lock()
	changed := a.changed
	a.mu.Unlock()
	if changed {
		a.counted("messages", messages)
	}
}

// withoutAct returns a context in which nothing is noted.
func withoutAct(ctx context.Context) context.Context {
	return context.WithValue(ctx, actKey{}, (*act)(nil))
}
