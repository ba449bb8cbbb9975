// Package watch shows what has happened on the nodes of a cluster to callers who may see it (ST-5, AU-3). Events may be
// used concurrently; errors are of package failure.
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

// Config is what events are watched with. Everywhere has what has happened on all nodes.
type Config struct {
	Everywhere  *peer.Events
	Serving     *serving.Node
	Logins      *identity.Logins
	Permissions *permission.Permissions
}

// Events are those of all nodes. All methods may be called concurrently.
type Events struct{ cfg Config }

// New returns the events that a node shows.
func New(c Config) *Events { return &Events{cfg: c} }

// Choice chooses events; what is empty chooses all.
type Choice struct {
	VHost string
	Kinds []string
	Name  string // of the queue, exchange or other thing, a pattern of path.Match
	// User and Operation choose audit records by the user, and by the operation, a pattern of path.Match.
	User, Operation string
	// Cursor goes on behind an event. Without one the events from now on are chosen, with History
	// those first that the nodes still have.
	Cursor  string
	History bool
}

// Watch calls report with events of all nodes and the cursor behind them, until report
// fails or ctx ends. The first call has no events. Events are those of what the caller sees
// (VH-12), as it is when they are sent; a caller who sees nothing any more is refused. Audit records are sent
// if Kinds has their kind, to administrators alone (AU-3).
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

// sources are the lists that hold what is wanted: audit records are kept apart from other events.
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
	if !s.Events { // an administrator sees what was done to vhosts that are gone
		return nil
	}
	if _, err := es.cfg.Permissions.Sight(ctx, w.VHost); err != nil {
		return err
	}
	_, err := es.cfg.Serving.ViewOf(w.VHost)
	return err
}

// chosen returns those of the events that the caller wants and may see now.
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

// check refuses kinds that no event has, and patterns that path.Match cannot read.
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

// wants reports whether an event is chosen. Missed always is: the caller has to learn that events are gone.
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

// matches reports whether a name has a pattern of path.Match; "" is that of all.
func matches(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

// from is where to begin; nil: now.
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

// encodeEventCursor is the counterpart of Choice.from.
func encodeEventCursor(at peer.Cursor) string {
	text, err := json.Marshal(at)
	if err != nil {
		return "" // it always can
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// DefaultAuditTail is how many records Tail returns of itself, and MaxAuditTail at most.
const (
	DefaultAuditTail = 100
	MaxAuditTail     = 4 * audit.Keep
)

// AuditTail is the newest audit records that the nodes still have.
type AuditTail struct {
	Events []Event  // the oldest first, by the clocks of the nodes
	Cursor string   // goes on behind them, in Choice
	Silent []string // nodes that did not answer
	Lost   uint64   // records that those that answered have had and do not keep any more
}

// Tail returns up to limit of the newest audit records that w chooses by vhost, user, name and
// operation, for administrators (AU-3); 0 stands for DefaultAuditTail.
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
