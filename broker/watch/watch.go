// Package watch shows what has happened on the nodes of a cluster to callers who may see it (ST-5, AU-3). Events may be
// used concurrently; errors are those of package failure.
package watch

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
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/cluster/peer"
	"github.com/quorate/quorate/id"
)

// Event is something that happened (ST-5).
type Event = event.Event

// Config has the parts of Events. Everywhere asks all nodes for what has happened.
type Config struct {
	Everywhere  *peer.Events
	Serving     *serving.Node
	Logins      *identity.Logins
	Permissions *permission.Permissions
}

// Events shows the events of all nodes. All methods may be called concurrently.
type Events struct{ cfg Config }

// New returns the Events of a node.
func New(c Config) *Events { return &Events{cfg: c} }

// Choice chooses events. A field that is empty excludes none.
type Choice struct {
	VHost string
	Kinds []string
	Name  string // of the queue, exchange or other object, a pattern of path.Match
	// User and Operation choose audit records. User is a name, Operation a pattern of path.Match.
	User, Operation string
	// Cursor continues after an event. Without a cursor, events from now on are chosen; with History those that the
	// nodes still have come first.
	Cursor  string
	History bool
}

// Watch calls report with events of all nodes and the cursor after them, until report fails or ctx ends. The first call
// has no events. The caller gets events about what it may see at the time they are sent (VH-12); if it may see nothing
// any more, Watch fails. Audit records are included only if Kinds has their kind, and only administrators get them
// (AU-3).
func (es *Events) Watch(ctx context.Context, w Choice, report func(events []Event, cursor string) error) error {
	if err := es.mayWatch(ctx, &w); err != nil {
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
	return es.cfg.Everywhere.Watch(ctx, from, w.sources(), func(events []event.Event, at peer.Cursor) error {
		wanted, err := es.chosen(ctx, &w, events)
		if err != nil {
			return err
		}
		if begun && len(wanted) == 0 {
			return nil
		}
		begun = true
		return report(wanted, encodeEventCursor(at))
	})
}

// sources returns which lists are needed, because audit records are kept apart from other events.
func (w *Choice) sources() peer.Choice {
	audit := slices.Contains(w.Kinds, string(event.Audit))
	return peer.Choice{Audit: audit, Events: !audit || slices.ContainsFunc(w.Kinds, func(k string) bool { return k != string(event.Audit) })}
}

// mayWatch refuses a caller who may not see what the choice asks for.
func (es *Events) mayWatch(ctx context.Context, w *Choice) error {
	s := w.sources()
	if s.Audit {
		if err := es.cfg.Logins.Require(ctx, identity.TagAdministrator); err != nil {
			return err
		}
	}
	if !s.Events { // so administrators see what was done to vhosts that no longer exist
		return nil
	}
	if _, err := es.cfg.Permissions.Sight(ctx, w.VHost); err != nil {
		return err
	}
	_, err := es.cfg.Serving.ViewOf(w.VHost)
	return err
}

// chosen returns the events that the caller wants and may see at present.
func (es *Events) chosen(ctx context.Context, w *Choice, events []Event) (wanted []Event, err error) {
	s := w.sources()
	var seen permission.Sight
	if s.Audit {
		err = es.cfg.Logins.Require(ctx, identity.TagAdministrator)
	}
	if err == nil && s.Events {
		seen, err = es.cfg.Permissions.Sight(ctx, w.VHost)
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

// check refuses unknown kinds of events, and patterns that path.Match cannot parse.
func (w *Choice) check() error {
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

// wants reports whether an event is chosen. Missed always is, because the caller must learn that events were lost.
func (w *Choice) wants(e *Event) bool {
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

// matches reports whether a name matches a pattern of path.Match; "" matches every name.
func matches(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

// from returns where to begin; nil: now.
func (w *Choice) from() (*peer.Cursor, error) {
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

// encodeEventCursor is the inverse of Choice.from.
func encodeEventCursor(at peer.Cursor) string {
	text, err := json.Marshal(at)
	if err != nil {
		return "" // cannot happen
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// DefaultAuditTail is how many records Tail returns by default, and MaxAuditTail at most.
const (
	DefaultAuditTail = 100
	MaxAuditTail     = 4 * audit.Keep
)

// AuditTail has the newest audit records that the nodes still have.
type AuditTail struct {
	Events []Event  // oldest first, by the clocks of the nodes
	Cursor string   // for Choice, to continue after them
	Silent []string // nodes that did not answer
	Lost   uint64   // records that the nodes which answered no longer have
}

// Tail returns up to limit of the newest audit records that w chooses by vhost, user, name and operation; the limit 0
// stands for DefaultAuditTail. Only administrators may call it (AU-3).
func (es *Events) Tail(ctx context.Context, w Choice, limit int) (AuditTail, error) {
	if err := es.cfg.Logins.Require(ctx, identity.TagAdministrator); err != nil {
		return AuditTail{}, err
	}
	if err := w.check(); err != nil {
		return AuditTail{}, err
	}
	if limit <= 0 {
		limit = DefaultAuditTail
	}
	all, at, silent, err := es.cfg.Everywhere.AuditTail(ctx)
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
