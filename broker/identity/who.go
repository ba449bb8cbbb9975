package identity

import (
	"context"
	"time"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
)

// Who returns the user that a context's calls come from. nil stands for a caller who may do everything: this node
// itself, or any client if Authenticate is off.
func (l *Logins) Who(ctx context.Context) (*Identity, error) {
	if s := SessionOf(ctx); s != nil {
		return l.still(s.who.Load())
	}
	if !l.cfg.Authenticate {
		return nil, nil //nolint:nilnil // no user, who may do everything
	}
	return nil, Unauthenticated("nobody is logged in; send user and password, or a token")
}

// still returns the identity unless its login has ended (ID-5); nil for this node itself.
func (l *Logins) still(who *Identity) (*Identity, error) {
	switch {
	case who.user == nil:
		return nil, nil //nolint:nilnil // no user, who may do everything
	case !who.ends.IsZero() && !l.now().Before(who.ends):
		return nil, who.ended()
	}
	return who, nil
}

// Require refuses callers that have neither the tag nor one that includes it.
func (l *Logins) Require(ctx context.Context, tag string) error {
	who, err := l.Who(ctx)
	if err != nil || who == nil || is(who.user, tag) {
		return err
	}
	return &failure.Error{
		Class: failure.AccessRefused, Kind: "user", Name: who.User(),
		Reason: "needs the tag " + tag + " for this; an administrator can give it",
	}
}

// DeclaredBy returns the user that a context's calls come from, for the record of a queue (VH-17). It returns "" if
// clients do not log in, for the node itself, and until VersionDeclarers is finalised.
func (l *Logins) DeclaredBy(ctx context.Context) (string, error) {
	who, err := l.Who(ctx)
	if err != nil || who == nil || l.view().Version() < catalog.VersionDeclarers {
		return "", err
	}
	return who.User(), nil
}

// Caller is Who in the form of audit records.
func (l *Logins) Caller(ctx context.Context) audit.Caller {
	who, err := l.Who(ctx)
	if err != nil || who == nil {
		return audit.Caller{}
	}
	return audit.Caller{User: who.User(), Mechanism: who.mechanism, Administrator: who.Is(TagAdministrator)}
}

// WhoOf is Who for a session.
func (l *Logins) WhoOf(s *Session) (*Identity, error) { return l.still(s.who.Load()) }

// loginLook is the longest interval at which WatchLogin checks whether a login has ended; a timer alone would miss that
// a clock was set.
const loginLook = 30 * time.Second

// WatchLogin calls ended when the login of a context ends, with the error for its client (ID-5): at most once, in a
// goroutine of its own. It watches until ctx ends or stop is called; a call of ended may still be running then.
func (l *Logins) WatchLogin(ctx context.Context, ended func(error)) (stop func()) {
	s := SessionOf(ctx)
	if s == nil || s.who.Load().ends.IsZero() {
		return func() {}
	}
	left := func() time.Duration { return min(s.who.Load().ends.Sub(l.now()), loginLook) }
	var timer *time.Timer
	timer = time.AfterFunc(loginLook, func() {
		switch wait := left(); {
		case ctx.Err() != nil:
		case wait > 0:
			timer.Reset(wait)
		default:
			ended(s.who.Load().ended())
		}
	})
	timer.Reset(max(left(), 0))
	return func() { timer.Stop() }
}
