package audit

import (
	"context"
	"strconv"
	"sync"
)

// Origin is where a call comes from.
type Origin struct {
	Protocol string // "grpc", "amqp", "http"; protocolNode: a node does it by itself
	Address  string // of the client
	Client   string // what it calls itself
}

// ProtocolNode is the Protocol of what a node does by itself.
const ProtocolNode = "node"

// Notes notes what comes of an Act while it is carried out; nil notes nothing. Its methods may be
// called concurrently.
type Notes struct {
	From Origin

	mu      sync.Mutex
	name    string // the object's, if it got it meanwhile
	changed bool
	changes []Change
}

// actKey is the key of the context's value with the Notes of a call.
type actKey struct{}

// NotesOf returns what notes what comes of a call.
func NotesOf(ctx context.Context) *Notes {
	a, _ := ctx.Value(actKey{}).(*Notes)
	return a
}

// Note reports that the act has changed something.
func (a *Notes) Note(changes ...Change) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changed = true
	a.changes = append(a.changes, changes...)
}

// Named notes the name that an object got.
func (a *Notes) Named(name string) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.name = name
}

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
