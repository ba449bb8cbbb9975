package broker

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/cluster/peer"
	"github.com/quorate/quorate/id"
)

// Event is something that happened (ST-5).
type Event = event.Event

// WatchEvents chooses events; what is empty chooses all.
type WatchEvents struct {
	VHost string
	Kinds []string
	Name  string // of the queue, exchange or other thing, a pattern of path.Match
	// User and Operation choose audit records: who did it, and what, a pattern of path.Match.
	User, Operation string
	// Cursor goes on behind an event. Without one events are told from now on, with History
	// those first that the nodes still have.
	Cursor  string
	History bool
}

// WatchEvents calls told with events of all nodes and the cursor behind them, until told
// fails or ctx ends. The first call has no events. Events are those of what the caller sees
// (VH-12), as it is when they are told; who sees nothing any more is refused. Audit records are told
// if Kinds has their kind, to administrators alone (AU-3).
func (b *Broker) WatchEvents(ctx context.Context, w WatchEvents, told func(events []Event, cursor string) error) error {
	c := b.cluster
	if err := b.mayWatch(ctx, &w); err != nil {
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
	return c.Events().Watch(ctx, from, w.sources(), func(events []event.Event, at peer.Cursor) error {
		wanted, err := b.chosen(ctx, &w, events)
		if err != nil {
			return err
		}
		if begun && len(wanted) == 0 {
			return nil
		}
		begun = true
		return told(wanted, encodeEventCursor(at))
	})
}

// sources are the lists that hold what is wanted.
func (w *WatchEvents) sources() peer.Choice {
	audit := slices.Contains(w.Kinds, string(event.Audit))
	return peer.Choice{Audit: audit, Events: !audit || slices.ContainsFunc(w.Kinds, func(k string) bool { return k != string(event.Audit) })}
}

// mayWatch refuses who may not see what it wants to.
func (b *Broker) mayWatch(ctx context.Context, w *WatchEvents) error {
	s := w.sources()
	if s.Audit {
		if err := b.Logins.Require(ctx, identity.TagAdministrator); err != nil {
			return err
		}
	}
	if !s.Events { // an administrator sees what was done to vhosts that are gone
		return nil
	}
	if _, err := b.Permissions.Sight(ctx, w.VHost); err != nil {
		return err
	}
	_, err := b.Serving.ViewOf(w.VHost)
	return err
}

// chosen returns those of the events that the caller wants and may see now.
func (b *Broker) chosen(ctx context.Context, w *WatchEvents, events []Event) (wanted []Event, err error) {
	s := w.sources()
	var seen permission.Sight
	if s.Audit {
		err = b.Logins.Require(ctx, identity.TagAdministrator)
	}
	if err == nil && s.Events {
		seen, err = b.Permissions.Sight(ctx, w.VHost)
	}
	if err != nil {
		return nil, err
	}
	for i := range events {
		e := &events[i]
		if w.wants(e) && (e.Audit != nil || seesEvent(seen, e)) {
			wanted = append(wanted, *e)
		}
	}
	return wanted, nil
}

func (w *WatchEvents) check() error {
	for _, k := range w.Kinds {
		if k != string(event.Audit) && !slices.Contains(event.Kinds(), event.Kind(k)) {
			var known []string
			for _, x := range append(event.Kinds(), event.Audit) {
				known = append(known, string(x))
			}
			return &failure.Error{Class: failure.PreconditionFailed, Kind: "events", Arg: "kinds", Value: strconv.Quote(k), Reason: "there are " + strings.Join(known, ", ")}
		}
	}
	for arg, pattern := range map[string]string{"name": w.Name, "operation": w.Operation} {
		if _, err := path.Match(pattern, ""); err != nil {
			return &failure.Error{
				Class: failure.PreconditionFailed, Kind: "events", Arg: arg, Value: strconv.Quote(pattern),
				Reason: "cannot be read; use *, ? and [a-z], and \\ in front of one of them",
			}
		}
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
	if a := e.Audit; a != nil && (w.User != "" && a.User != w.User || !matches(w.Operation, a.Operation)) {
		return false
	}
	return matches(w.Name, e.Name)
}

// matches reports whether a name has a pattern of path.Match; "" is that of all.
func matches(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

// from is where to begin; nil: now.
func (w *WatchEvents) from() (*peer.Cursor, error) {
	if w.Cursor == "" {
		if w.History {
			return &peer.Cursor{}, nil
		}
		return nil, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(w.Cursor)
	at := &peer.Cursor{}
	if err == nil {
		err = json.Unmarshal(text, at)
	}
	if err != nil {
		return nil, &failure.Error{
			Class: failure.PreconditionFailed, Kind: "events", Arg: "cursor", Value: strconv.Quote(w.Cursor),
			Reason: "is not one that a stream of events gave; send it back unchanged, or leave it empty",
		}
	}
	return at, nil
}

func encodeEventCursor(at peer.Cursor) string {
	text, err := json.Marshal(at)
	if err != nil {
		return "" // it always can
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// DefaultAuditTail is how many records TailAudit returns of itself, and MaxAuditTail at most.
const (
	DefaultAuditTail = 100
	MaxAuditTail     = 4 * audit.Keep
)

// AuditTail is the newest audit records that the nodes still have.
type AuditTail struct {
	Events []Event  // the oldest first, by the clocks of the nodes
	Cursor string   // goes on behind them, in WatchEvents
	Silent []string // nodes that did not answer
	Lost   uint64   // records that those that answered have had and do not keep any more
}

// TailAudit returns up to limit of the newest audit records that w chooses by vhost, user, name and
// operation, for administrators (AU-3); 0 stands for DefaultAuditTail.
func (b *Broker) TailAudit(ctx context.Context, w WatchEvents, limit int) (AuditTail, error) {
	if err := b.Logins.Require(ctx, identity.TagAdministrator); err != nil {
		return AuditTail{}, err
	}
	if err := w.check(); err != nil {
		return AuditTail{}, err
	}
	c := b.cluster
	if limit <= 0 {
		limit = DefaultAuditTail
	}
	all, at, silent, err := c.Events().AuditTail(ctx)
	if err != nil {
		return AuditTail{}, failure.Translate(err, failure.Error{Kind: "audit"})
	}
	out := AuditTail{Cursor: encodeEventCursor(at), Silent: id.Names(silent)}
	for i := range all {
		switch {
		case all[i].Kind == event.Missed:
			out.Lost += all[i].Count
		case w.wants(&all[i]):
			out.Events = append(out.Events, all[i])
		}
	}
	slices.SortStableFunc(out.Events, func(a, b Event) int { return cmp.Compare(a.AtMs, b.AtMs) })
	out.Events = out.Events[max(0, len(out.Events)-min(limit, MaxAuditTail)):]
	return out, nil
}
