package history

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// History is a record under way. All methods may be called concurrently.
type History struct {
	begin        time.Time
	publishers   atomic.Int64
	consumers    atomic.Int64
	transactions atomic.Int64

	mu      sync.Mutex
	blocks  [][]Event // all but the last are full
	count   int
	lasting map[int]Event // faults that are not healed
}

// blockEvents is the number of events in a block. A slice of all of them would be copied as it grows: of a run of ten
// minutes that is a gigabyte, for which the process stands still, and with it every node whose calls it answers.
const blockEvents = 4096

// New begins a history now.
func New() *History { return &History{begin: time.Now(), lasting: map[int]Event{}} }

// Now returns the time since the beginning, monotonic.
func (h *History) Now() time.Duration { return time.Since(h.begin) }

// Publisher returns a number that no other publisher of the history has.
func (h *History) Publisher() int { return int(h.publishers.Add(1)) }

// Consumer returns a name that no other consumer of the history has.
func (h *History) Consumer() string { return fmt.Sprintf("c%d", h.consumers.Add(1)) }

// Transaction returns a number that no other transaction of the history has.
func (h *History) Transaction() int { return int(h.transactions.Add(1)) }

// Add adds events and stamps them; order and time agree.
func (h *History) Add(events ...Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.Now()
	for i := range events {
		events[i].At = now
		switch e := &events[i]; e.Kind {
		case Fault:
			h.lasting[e.Fault] = *e
		case Healed:
			delete(h.lasting, e.Fault)
		default:
		}
	}
	h.keep(events)
}

// keep appends events to the blocks. mu is held, or no other goroutine knows the history.
func (h *History) keep(events []Event) {
	h.count += len(events)
	for len(events) > 0 {
		if n := len(h.blocks); n == 0 || len(h.blocks[n-1]) == blockEvents {
			h.blocks = append(h.blocks, make([]Event, 0, blockEvents))
		}
		last := &h.blocks[len(h.blocks)-1]
		n := min(len(events), blockEvents-len(*last))
		*last, events = append(*last, events[:n]...), events[n:]
	}
}

// Events returns a copy.
func (h *History) Events() []Event { return h.Since(0) }

// takenAtOnce is the number of blocks, of some three gigabytes, that Take copies before it gives back their memory.
const takenAtOnce = 2048

// Take returns all events, and forgets them as it goes: an hour's are in memory little more than once.
func (h *History) Take() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]Event, 0, h.count)
	for i, b := range h.blocks {
		out, h.blocks[i] = append(out, b...), nil
		if i%takenAtOnce == takenAtOnce-1 {
			debug.FreeOSMemory()
		}
	}
	h.blocks, h.count = nil, 0
	return out
}

// Lasting returns the faults that are not healed, in no order.
func (h *History) Lasting() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.lasting))
}

// Since returns a copy of the events from this one on; 0 is the first.
func (h *History) Since(n int) []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []Event
	for i := n / blockEvents; i < len(h.blocks); i++ {
		out = append(out, h.blocks[i][min(max(0, n-i*blockEvents), len(h.blocks[i])):]...)
	}
	return out
}

// Begun returns the wall clock's time when the history began.
func (h *History) Begun() time.Time { return h.begin }

// Write writes events as lines of JSON.
func Write(w io.Writer, events []Event) error {
	b := bufio.NewWriter(w)
	e := json.NewEncoder(b)
	for i := range events {
		if err := e.Encode(&events[i]); err != nil {
			return fmt.Errorf("history: write event %d: %w", i+1, err)
		}
	}
	return b.Flush()
}

// Read reads what Write wrote. An hour's events are in memory little more than once.
func Read(r io.Reader) ([]Event, error) {
	h, shared := New(), words{}
	d := json.NewDecoder(r)
	for {
		var e Event
		err := d.Decode(&e)
		if err == io.EOF {
			return h.Take(), nil
		}
		if err != nil {
			return nil, fmt.Errorf("history: read event %d: %w", h.count+1, err)
		}
		shared.share(&e)
		h.keep([]Event{e})
	}
}

// words are the texts of events that are read, each once: decoding makes one anew for each event that has it.
type words map[string]string

// share lets an event have texts of others in place of its own.
func (w words) share(e *Event) {
	e.Kind, e.Outcome = Kind(w.one(string(e.Kind))), Outcome(w.one(string(e.Outcome)))
	e.Client, e.Queue, e.Consumer = w.one(e.Client), w.one(e.Queue), w.one(e.Consumer)
	for i, q := range e.Queues {
		e.Queues[i] = w.one(q)
	}
	for i, d := range e.Deaths {
		e.Deaths[i].Queue, e.Deaths[i].Reason = w.one(d.Queue), w.one(d.Reason)
	}
}

// one returns the text that stands for all equal ones.
func (w words) one(text string) string {
	if known, is := w[text]; is {
		return known
	}
	w[text] = text
	return text
}

// compressed ends the names of files that are compressed with gzip.
const compressed = ".gz"

// WriteFile writes events to a new file, compressed if its name ends with .gz.
func WriteFile(name string, events []Event) error {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	if !strings.HasSuffix(name, compressed) {
		return errors.Join(Write(f, events), f.Close())
	}
	z := gzip.NewWriter(f)
	return errors.Join(Write(z, events), z.Close(), f.Close())
}

// ReadFile reads what WriteFile wrote.
func ReadFile(name string) ([]Event, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	if !strings.HasSuffix(name, compressed) {
		return Read(f)
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("history: %s: %w", name, err)
	}
	return Read(z)
}
