package broker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/event"
)

// Event is something that happened (ST-5).
type Event = event.Event

// WatchEvents chooses events; what is empty chooses all.
type WatchEvents struct {
	VHost string
	Kinds []string
	Name  string // of the queue, exchange or other thing, a pattern of path.Match
	// Cursor goes on behind an event. Without one events are told from now on, with History
	// those first that the nodes still have.
	Cursor  string
	History bool
}

// WatchEvents calls told with events of all nodes and the cursor behind them, until told
// fails or ctx ends. The first call has no events. Events are those of what the caller sees
// (VH-12), as it is when they are told; who sees nothing any more is refused.
func (b *Broker) WatchEvents(ctx context.Context, w WatchEvents, told func(events []Event, cursor string) error) error {
	c, err := b.attachedCluster()
	if err != nil {
		return err
	}
	if _, err := b.sight(ctx, w.VHost); err != nil {
		return err
	}
	if _, err := b.viewOf(w.VHost); err != nil {
		return err
	}
	if err := w.check(); err != nil {
		return err
	}
	from, err := w.from()
	if err != nil {
		return err
	}
	begun := false
	return c.WatchEvents(ctx, from, func(events []event.Event, at cluster.EventCursor) error {
		seen, err := b.sight(ctx, w.VHost)
		if err != nil {
			return err
		}
		var wanted []Event
		for i := range events {
			if w.wants(&events[i]) && seen.seesEvent(&events[i]) {
				wanted = append(wanted, events[i])
			}
		}
		if begun && len(wanted) == 0 {
			return nil
		}
		begun = true
		return told(wanted, encodeEventCursor(at))
	})
}

func (w *WatchEvents) check() error {
	for _, k := range w.Kinds {
		if !slices.Contains(event.Kinds(), event.Kind(k)) {
			var known []string
			for _, x := range event.Kinds() {
				known = append(known, string(x))
			}
			return &Error{Class: PreconditionFailed, Kind: "events", Arg: "kinds", Value: strconv.Quote(k), Reason: "there are " + strings.Join(known, ", ")}
		}
	}
	if _, err := path.Match(w.Name, ""); err != nil {
		return &Error{Class: PreconditionFailed, Kind: "events", Arg: "name", Value: strconv.Quote(w.Name), Reason: "cannot be read; use *, ? and [a-z], and \\ in front of one of them"}
	}
	return nil
}

func (w *WatchEvents) wants(e *Event) bool {
	if e.Kind == event.Missed {
		return true
	}
	if w.VHost != "" && e.VHost != w.VHost || len(w.Kinds) > 0 && !slices.Contains(w.Kinds, string(e.Kind)) {
		return false
	}
	if w.Name == "" {
		return true
	}
	ok, err := path.Match(w.Name, e.Name)
	return err == nil && ok
}

// from is where to begin; nil: now.
func (w *WatchEvents) from() (*cluster.EventCursor, error) {
	if w.Cursor == "" {
		if w.History {
			return &cluster.EventCursor{}, nil
		}
		return nil, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(w.Cursor)
	at := &cluster.EventCursor{}
	if err == nil {
		err = json.Unmarshal(text, at)
	}
	if err != nil {
		return nil, &Error{
			Class: PreconditionFailed, Kind: "events", Arg: "cursor", Value: strconv.Quote(w.Cursor),
			Reason: "is not one that a stream of events gave; send it back unchanged, or leave it empty",
		}
	}
	return at, nil
}

func encodeEventCursor(at cluster.EventCursor) string {
	text, err := json.Marshal(at)
	if err != nil {
		return "" // it always can
	}
	return base64.RawURLEncoding.EncodeToString(text)
}
