package audit

import (
	"context"
	"strconv"
	"sync"
)

// Origin is where a call comes from.
type Origin struct {
	Protocol string // "grpc", "amqp", "http"; ProtocolNode: no client asked for it
	Address  string // of the client
	Client   string // the name that the client gives itself
}

// ProtocolNode is the Protocol of what a node does without a client.
const ProtocolNode = "node"

// Notes collects what an Act changes while it is carried out. A nil *Notes collects nothing. All
// methods may be called concurrently.
type Notes struct {
	From Origin

	mu      sync.Mutex
	name    string // of the object; it may get its name during the act
	changed bool
	changes []Change
}

// actKey is the key of the Notes in a context.
type actKey struct{}

// NotesOf returns the Notes of the act that a context belongs to, or nil.
func NotesOf(ctx context.Context) *Notes {
	a, _ := ctx.Value(actKey{}).(*Notes)
	return a
}

// Note records that the act has changed something.
func (a *Notes) Note(changes ...Change) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changed = true
	a.changes = append(a.changes, changes...)
}

// Named records the name that the object got.
func (a *Notes) Named(name string) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.name = name
}

// Counted records how many things an act has removed or started; for 0 it records nothing.
func (a *Notes) Counted(what string, n uint64) {
	if n > 0 {
		a.Note(Change{Field: what, Before: strconv.FormatUint(n, 10)})
	}
}

// Lost records how many messages were removed with a queue, if the queue was.
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

// WithoutNotes returns a context whose calls note nothing.
func WithoutNotes(ctx context.Context) context.Context {
	return context.WithValue(ctx, actKey{}, (*Notes)(nil))
}
