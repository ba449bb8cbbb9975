package audit

import (
	"context"
	"errors"
	"time"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster/event"
)

// LoginTry is what a listener knows about a login.
type LoginTry struct {
	From Origin
	User string // as the client has named it; "": not yet
}

// LoginRefused counts a login that a listener refuses because of err, and records it unless there
// are too many. It ignores errors that are not the client's fault.
func (l *Log) LoginRefused(ctx context.Context, try LoginTry, err error) {
	e, ok := errors.AsType[*failure.Error](err)
	if !ok || !e.Unauthenticated && e.Class != failure.ResourceExhausted && e.Class != failure.NotAllowed {
		return
	}
	l.cfg.Tried(try.From.Protocol, try.From.Address, try.User, false)
	if e.Unauthenticated { // those refused without a check are counted elsewhere
		l.cfg.Refused.Add(1)
	}
	skipped, ok := l.logins.Take(time.Now())
	if !ok {
		return
	}
	l.recordAct(ctx, &Act{Operation: OpLogin, VHost: e.VHost, Kind: "user", Name: try.User, From: try.From, bounded: true, leftOut: skipped}, nil, event.Refused, err)
}

// LoggedIn records that the identity of the context starts to use a connection, and for which vhost
// if that is known.
func (l *Log) LoggedIn(ctx context.Context, from Origin, vhost string) {
	who := l.cfg.Who(ctx)
	if who.User == "" {
		return
	}
	l.cfg.Tried(from.Protocol, from.Address, who.User, true)
	l.recordAct(ctx, &Act{Operation: OpLogin, VHost: vhost, Kind: "user", Name: who.User, From: from}, nil, event.Done, nil)
}
