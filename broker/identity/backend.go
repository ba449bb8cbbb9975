package identity

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/access"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
)

// InternalUsers is the name of the backend that the users of the catalog are.
const InternalUsers = "internal"

// ownUsers is the backend of the users of the catalog.
type ownUsers struct{ l *Logins }

// Name implements access.Backend.
func (ownUsers) Name() string { return InternalUsers }

// Tokens implements access.Backend.
func (ownUsers) Tokens() bool { return false }

// Remembered returns what is known of credentials for the user as it is now.
func (o ownUsers) Remembered(c access.Credentials) (id *access.Identity, err error, known bool) { //nolint:revive // an answer, and whether there is one
	v := o.l.view()
	u, _ := v.User(c.User)
	d := o.l.digest("password", c.User, c.Secret)
	switch {
	case o.l.known(d, u):
		return &access.Identity{Name: c.User}, nil, true
	case o.l.throttle.wrong(d, u):
		return nil, wrongPassword(), true
	}
	return nil, nil, false
}

// Authenticate implements access.Backend.
func (o ownUsers) Authenticate(ctx context.Context, c access.Credentials) (*access.Identity, error) {
	v := o.l.view()
	u, _ := v.User(c.User)
	d := o.l.digest("password", c.User, c.Secret)
	err := o.l.verify(ctx, u, c.Secret, d)
	if err == nil {
		return &access.Identity{Name: c.User}, nil
	}
	if _, wrong := errors.AsType[*access.Refused](err); wrong {
		o.l.throttle.refuse(d, u)
		if u == nil { // the view may lack the user
			if old := o.l.certainty.Current(ctx); old != nil {
				return nil, old
			}
		}
	}
	return nil, err
}

// login asks the backends for as often as the address may be wrong.
func (l *Logins) login(ctx context.Context, c access.Credentials, from netip.Addr) (*Identity, error) {
	c.Now = l.now()
	try := attempt{throttle: &l.throttle, from: from}
	id, by, err := l.chain.Authenticate(ctx, c, try.take)
	if err = try.done(err); err != nil {
		return nil, l.certainty.Definite(ctx, err)
	}
	return l.identityOf(id, by, from)
}

// attempt is one login of an address.
type attempt struct {
	throttle *throttle
	from     netip.Addr
	taken    bool
}

// take refuses what comes from an address that was wrong too often.
func (t *attempt) take() error {
	if t.taken = t.throttle.take(t.from, time.Now()); t.taken {
		return nil
	}
	return &failure.Error{
		Class: failure.ResourceExhausted, Kind: "login", RetryAfter: LoginTryEvery,
		Reason: "too many wrong passwords came from address " + t.from.String() + "; wait, and see which program there has an old one",
	}
}

// done makes the listeners' error of that of a chain. The address gets the try back but for what was found to be wrong: who was
// right, who could not be told, who found no room, and who left before the end. But who leaves after one
// backend has refused would otherwise guess as often as he likes.
func (t *attempt) done(err error) error {
	if no, wrong := errors.AsType[*access.Refused](err); wrong {
		return Unauthenticated(no.Reason)
	}
	left := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	unavailable, is := errors.AsType[*access.Unavailable](err)
	_, guessed := errors.AsType[*access.Unsure](err)
	if t.taken && (is || !guessed || !left) {
		t.throttle.giveBack(t.from)
	}
	if is {
		return &failure.Error{
			Class: failure.Unavailable, Kind: "login", RetryAfter: cmp.Or(unavailable.RetryAfter, hashRetryAfter), Cause: err,
			Reason: "this node cannot tell now who logs in: " + unavailable.Error() + "; try again",
		}
	}
	return err
}

// identityOf makes the identity of a login from a backend's answer.
func (l *Logins) identityOf(id *access.Identity, backend string, from netip.Addr) (*Identity, error) {
	loopback := from.Unmap().IsLoopback()
	if backend == InternalUsers {
		u, known := l.view().User(id.Name)
		if !known { // any more
			return nil, Unauthenticated(access.WrongPassword)
		}
		return by(audit.MechanismPassword)(l.admitted(u, loopback))
	}
	if err := l.onLoopback(id.Name, loopback); err != nil {
		return nil, err
	}
	if access.CheckName(id.Name) != nil || id.Rights == nil || strings.HasPrefix(id.Name, hostUserPrefix) || strings.HasPrefix(id.Name, audit.NodeUserPrefix) {
		return nil, Unauthenticated("backend " + backend + " names a user that there cannot be here")
	}
	who := externalIdentity(id.Name, id.Tags...)
	who.backend, who.mechanism, who.rights, who.ends = backend, backend, id.Rights, id.Expires
	if !id.Expires.IsZero() {
		who.expireMs = id.Expires.UnixMilli()
	}
	return who, nil
}

// Renew has the calls of a context go on with another secret of the same user, to which a
// backend has taken it: rights, tags and end are those of the new one (ID-5), if it may go on then. Logins that do not end have no need of it, and whatever comes is fine (AM-11). Errors: NotAllowed
// if it is wrong or another user's, Unavailable.
func (l *Logins) Renew(ctx context.Context, secret string, from netip.Addr, may func(*Identity) error) error {
	s := SessionOf(ctx)
	if s == nil || s.who.Load().ends.IsZero() {
		return nil
	}
	was := s.who.Load()
	c := access.Credentials{User: was.User(), Secret: secret, Now: l.now()}
	try := attempt{throttle: &l.throttle, from: from}
	id, err := l.chain.Again(ctx, was.backend, c, try.take)
	if err = try.done(err); err != nil {
		return err
	}
	who, err := l.identityOf(id, was.backend, from)
	switch {
	case err != nil:
		return err
	case who.User() != was.User():
		return &failure.Error{
			Class: failure.NotAllowed, Kind: "login", User: was.User(),
			Reason: "the new secret is of user " + strconv.Quote(who.User()) + ", the connection of user " + strconv.Quote(was.User()) + "; open another one",
		}
	}
	if err := may(who); err != nil {
		return err
	}
	s.who.Store(who)
	return nil
}

// LoginCounts are the answers of the backends by their names.
func (l *Logins) LoginCounts() map[string]access.Counts { return l.chain.Counts() }

// ended is the error of calls after the login has ended.
func (i *Identity) ended() *failure.Error {
	return Unauthenticated("the login of user " + strconv.Quote(i.User()) + " has ended at " + i.ends.UTC().Format(time.RFC3339) + "; log in with a new token")
}

// loginLook is the longest time between two looks whether a login has ended: clocks are set.
const loginLook = 30 * time.Second

// WatchLogin has ended called, at most once and in a goroutine of its own, when the login of a
// context ends, with what its client is to be told (ID-5). It watches until ctx ends or stop is
// called; ended may be under way then.
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
