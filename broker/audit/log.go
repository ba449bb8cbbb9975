// Package audit keeps and emits records of what was changed, by whom and from where (AU-1 to AU-4). Changes are made
// through a Log: while one is made, the code that makes it adds to the Notes in its context, as Commands does for the
// catalog. A Log and Commands may be used concurrently. Everything in a record has a maximum size.
package audit

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/lograte"
)

// Limits of the audit (AU-4).
const (
	// Keep is the least number of records that a node keeps about what clients do; it keeps as many about
	// administration.
	Keep = event.AuditKeep
	// UseLines is how many log lines about what clients do can be written at once. After each UseEvery there can be one
	// more; it has the number of lines that were left out. Lines about administration are never left out.
	UseLines = 200
	UseEvery = 100 * time.Millisecond
	// RefusedLoginLines and RefusedLoginEvery are the same for lines about refused logins: neither a program with an
	// old password nor an attacker who guesses may fill a disk.
	RefusedLoginLines = 20
	RefusedLoginEvery = 5 * time.Second
)

// Act is a change that a caller is about to make.
type Act struct {
	Operation  Operation
	VHost      string
	Kind, Name string // of the object, such as "queue"
	From       Origin
	ByItself   bool   // no client asked for it
	bounded    bool   // the caller has limited its lines already
	leftOut    uint64 // earlier acts of this kind without a record
}

// Audited calls do to carry out the act x for the identity of the context, and keeps one record of it: as done if it
// has changed something, or as refused (AU-1, AU-2). It returns do's error. Everything that changes something for a
// caller must go through Audited.
func (l *Log) Audited(ctx context.Context, x Act, do func(context.Context) error) error {
	a := &Notes{From: x.From, name: x.Name}
	err := do(context.WithValue(ctx, actKey{}, a))
	a.mu.Lock()
	defer a.mu.Unlock()
	x.Name = a.name
	if err == nil && !a.changed || x.ByItself && !a.changed {
		return err
	}
	l.recordAct(ctx, &x, a.changes, outcomeOf(a.changed, err), err)
	return err
}

// ByItself is Audited for what this node does without a client. It records only what was done, not what failed.
func (l *Log) ByItself(ctx context.Context, x Act, do func(context.Context) error) error {
	x.ByItself, x.From = true, Origin{Protocol: ProtocolNode}
	return l.Audited(ctx, x, do)
}

// outcomeOf returns the outcome of an act: changed acts count as done, whatever the error.
func outcomeOf(changed bool, err error) string {
	e, known := errors.AsType[*failure.Error](err)
	switch {
	case err == nil, changed:
		return event.Done
	case errors.Is(err, traffic.ErrUnknownOutcome), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		known && e.Class == failure.Internal:
		return event.Unknown
	}
	return event.Refused
}

// recordAct keeps, counts and logs one record.
func (l *Log) recordAct(ctx context.Context, x *Act, changes []Change, outcome string, err error) {
	e := event.Event{Kind: event.Audit, VHost: bounded(x.VHost, NameBytes), Name: bounded(x.Name, NameBytes), Count: x.leftOut}
	a := &event.Audited{
		Protocol: x.From.Protocol, Address: bounded(x.From.Address, NameBytes), Client: bounded(x.From.Client, auditClientBytes),
		Operation: string(x.Operation), Object: x.Kind, Outcome: outcome, Changes: boundedChanges(changes),
	}
	if err != nil {
		e.Cause = bounded(err.Error(), ReasonBytes)
	}
	list := l.count(x.Operation, outcome)
	switch who := l.cfg.Who(ctx); {
	case x.ByItself:
		a.User = NodeUserPrefix + string(l.cfg.Node)
	case who.User != "":
		a.User, a.Mechanism = bounded(who.User, NameBytes), who.Mechanism
		switch {
		case who.Mechanism == MechanismHost:
			list = event.AuditOfAdministration
		case outcome == event.Refused && !who.Administrator: // anybody can cause many refusals
			list = event.AuditOfUse
		}
	}
	e.Audit = a
	l.cfg.Keep(list, e)
	if list == event.AuditOfUse && !x.bounded {
		var ok bool
		if e.Count, ok = l.lines.Take(time.Now()); !ok {
			return
		}
	}
	l.logAudit(ctx, &e)
}

// logAudit writes a record to the log. An act after a login by the host token is a warning, because that login needs no
// password.
func (l *Log) logAudit(ctx context.Context, e *event.Event) {
	a := e.Audit
	level := slog.LevelInfo
	if a.Mechanism == MechanismHost {
		level = slog.LevelWarn
	}
	l.log.LogAttrs(ctx, level, "audit", slog.String("operation", a.Operation), slog.String("outcome", a.Outcome),
		slog.String("user", a.User), slog.String("mechanism", a.Mechanism), slog.String("protocol", a.Protocol),
		slog.String("address", a.Address), slog.String("client", a.Client), slog.String("vhost", e.VHost),
		slog.String("object", a.Object), slog.String("name", e.Name), slog.String("changes", changesText(a.Changes)),
		slog.String("reason", e.Cause), slog.Uint64("left_out", e.Count))
}

// NodeUserPrefix begins the User of what a node did by itself. The colon keeps it apart from users, whose names have
// none.
const NodeUserPrefix = "node:"

// Config has what a Log needs.
type Config struct {
	Node id.NodeID
	// Who returns the caller that a context belongs to.
	Who func(context.Context) Caller
	// Keep stores a record.
	Keep func(event.AuditList, event.Event)
	// Refused counts logins that were refused.
	Refused *atomic.Uint64
	// Tried counts an attempt to log in, over a protocol from an address; user is as the client has named it. It must return
	// soon.
	Tried func(protocol, address, user string, accepted bool)
	Log   *slog.Logger
}

// Caller is the caller of an act as a record shows it; the zero value is an unknown caller.
type Caller struct {
	User, Mechanism string
	Administrator   bool // whether the caller has that tag
}

// Log keeps, counts and emits records of what was changed, and limits the log lines about them. All methods may be
// called concurrently.
type Log struct {
	cfg    Config
	log    *slog.Logger
	counts map[Operation]*auditCount // never changes
	lines  lograte.Lines             // about what clients do
	logins lograte.Lines             // about refused logins
}

// auditCount counts the records of one operation by outcome.
type auditCount struct {
	list                   event.AuditList
	done, refused, unknown atomic.Uint64
}

// New returns a Log that has counted nothing yet.
func New(c Config) *Log {
	a := &Log{
		cfg: c, log: c.Log, counts: map[Operation]*auditCount{},
		lines:  lograte.Lines{Burst: UseLines, Every: UseEvery},
		logins: lograte.Lines{Burst: RefusedLoginLines, Every: RefusedLoginEvery},
	}
	for _, op := range administration() {
		a.counts[op] = &auditCount{list: event.AuditOfAdministration}
	}
	for _, op := range use() {
		a.counts[op] = &auditCount{list: event.AuditOfUse}
	}
	return a
}

// count counts a record and returns the list that it belongs to.
func (l *Log) count(op Operation, outcome string) event.AuditList {
	c := l.counts[op]
	switch outcome {
	case event.Done:
		c.done.Add(1)
	case event.Refused:
		c.refused.Add(1)
	default:
		c.unknown.Add(1)
	}
	return c.list
}

// Count is the number of records of an operation with an outcome.
type Count struct {
	Operation, Outcome string
	Count              uint64
}

// Counts returns the counts since the node's start that are not 0.
func (l *Log) Counts() (out []Count) {
	for op, c := range l.counts {
		for outcome, n := range map[string]uint64{event.Done: c.done.Load(), event.Refused: c.refused.Load(), event.Unknown: c.unknown.Load()} {
			if n > 0 {
				out = append(out, Count{string(op), outcome, n})
			}
		}
	}
	return out
}
