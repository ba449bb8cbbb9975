package chaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// Kind is what an event of a history tells.
type Kind string

// The kinds of events.
const (
	Published Kind = "published" // a publisher began to publish ID
	Confirmed Kind = "confirmed" // it was confirmed
	Refused   Kind = "refused"   // it is not, and will not be, stored
	Unknown   Kind = "unknown"   // it may be stored
	Delivered Kind = "delivered" // a consumer of Queue saw ID
	Acked     Kind = "acked"     // the ack of ID is committed
	Discarded Kind = "discarded" // the consumer discarded ID; it may not have counted
	Buried    Kind = "buried"    // the discard of ID is committed
	Fault     Kind = "fault"     // Node was hit by Note
	Healed    Kind = "healed"    // Node is well again
	Drained   Kind = "drained"   // Queue was empty at the end
)

// Event is one line of a history. Times are since its beginning.
type Event struct {
	At        time.Duration `json:"at"`
	Kind      Kind          `json:"kind"`
	Publisher int           `json:"publisher,omitempty"`
	ID        uint64        `json:"id,omitempty"` // ascending for each publisher, from 1
	Queue     string        `json:"queue,omitempty"`
	Acquired  uint32        `json:"acquired,omitempty"` // Delivered: earlier deliveries
	Sent      time.Duration `json:"sent,omitempty"`     // Confirmed: when it was published
	Node      string        `json:"node,omitempty"`
	Note      string        `json:"note,omitempty"`
}

// History is a record of what clients saw. Add may be called concurrently.
type History struct {
	mu     sync.Mutex
	begin  time.Time
	events []Event
}

// NewHistory begins a history now.
func NewHistory() *History { return &History{begin: time.Now()} }

// Now returns the time since the beginning.
func (h *History) Now() time.Duration { return time.Since(h.begin) }

// Add adds events and stamps them; order and time agree.
func (h *History) Add(events ...Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.Now()
	for _, e := range events {
		e.At = now
		h.events = append(h.events, e)
	}
}

// Events returns a copy.
func (h *History) Events() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Event(nil), h.events...)
}

// WriteHistory writes events as lines of JSON.
func WriteHistory(w io.Writer, events []Event) error {
	b := bufio.NewWriter(w)
	e := json.NewEncoder(b)
	for i := range events {
		if err := e.Encode(&events[i]); err != nil {
			return fmt.Errorf("chaos: history: %w", err)
		}
	}
	return b.Flush()
}

// ReadHistory reads what WriteHistory wrote.
func ReadHistory(r io.Reader) ([]Event, error) {
	var out []Event
	d := json.NewDecoder(r)
	for {
		var e Event
		err := d.Decode(&e)
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("chaos: history, event %d: %w", len(out)+1, err)
		}
		out = append(out, e)
	}
}
