// Package permission decides what a user may do, by the permissions in the catalog or those of a login, and what a user
// may see (VH-6, VH-8, VH-12). Patterns that take too long use up a budget of their user. Permissions may be used
// concurrently; errors are those of package failure.
package permission

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/internal/pattern"
)

// defaultExchangeName is the name that patterns are matched with for the default exchange (VH-6).
const defaultExchangeName = "amq.default"

// grantIn returns what a user may do in a vhost; nil: nothing. Only grantIn and TopicPermission decide whether the
// rights come from the catalog or from the login (ID-2).
func (ps *Permissions) grantIn(v *catalog.View, who *identity.Identity, vhost string) *Grant {
	if who.Rights() != nil {
		if g, has := who.Rights().In(vhost); has {
			return &Grant{user: who.User(), patterns: g, budgets: &ps.grants.budgets}
		}
		return nil
	}
	p, has := v.Permission(who.User(), vhost)
	if !has {
		return nil
	}
	return ps.grantOf(p)
}

// grantOf returns the compiled form of a permission.
func (ps *Permissions) grantOf(p *catalog.Permission) *Grant {
	return ps.grants.of(grantKey{user: p.User, VHost: p.VHost}, p, [3]string{p.Configure, p.Write, p.Read})
}

// Permission is grantIn with the reason why there is no permission.
func (ps *Permissions) Permission(v *catalog.View, who *identity.Identity, vhost string) (*Grant, error) {
	if err := vhostExists(v, vhost); err != nil {
		return nil, err
	}
	if g := ps.grantIn(v, who, vhost); g != nil {
		return g, nil
	}
	return nil, noAccess(who.User(), vhost)
}

// vhostExists refuses a vhost that does not exist.
func vhostExists(v *catalog.View, vhost string) error {
	if _, exists := v.VHost(vhost); exists {
		return nil
	}
	return &failure.Error{Class: failure.NotFound, VHost: vhost, Kind: "vhost", Name: vhost, Reason: "does not exist"}
}

// TopicPermission returns what limits a user's keys at an exchange; nil: nothing (VH-8).
func (ps *Permissions) TopicPermission(v *catalog.View, who *identity.Identity, vhost, exchange string) *Grant {
	if who.Rights() != nil {
		if g, bounded := who.Rights().Topic(vhost, exchange); bounded {
			return &Grant{user: who.User(), patterns: g, budgets: &ps.grants.budgets}
		}
		return nil
	}
	user := who.User()
	p, has := v.TopicPermission(user, vhost, exchange)
	if !has {
		return nil
	}
	expand := strings.NewReplacer("{username}", pattern.Escape(user), "{vhost}", pattern.Escape(vhost)).Replace
	return ps.grants.of(grantKey{user, vhost, exchange}, p, [3]string{Write: expand(p.Write), Read: expand(p.Read)})
}

// Config has the parts of Permissions.
type Config struct {
	View   func() *catalog.View
	Logins *identity.Logins
	// Timeouts counts matches of patterns that took too long and were stopped (C-8).
	Timeouts *atomic.Uint64
	Log      *slog.Logger
}

// Permissions decides what users may do. All methods may be called concurrently.
type Permissions struct {
	view   func() *catalog.View
	logins *identity.Logins
	grants grants
}

// New returns Permissions that have compiled no pattern yet.
func New(c Config) *Permissions {
	return &Permissions{view: c.View, logins: c.Logins, grants: grants{budgets: newSlowBudgets(c.Timeouts, c.Log)}}
}

// Renew is identity.Logins.Renew for a connection to a vhost: the new secret must give a permission in the vhost.
func (ps *Permissions) Renew(ctx context.Context, secret, vhost string, from netip.Addr) error {
	return ps.logins.Renew(ctx, secret, from, func(who *identity.Identity) error {
		_, err := ps.Permission(ps.view(), who, vhost)
		return err
	})
}

// Thing is a queue or exchange for which a permission is checked.
type Thing struct{ VHost, Kind, Name string }

// Queue returns a queue as a Thing.
func Queue(vhost, name string) Thing { return Thing{vhost, "queue", name} }

// Exchange returns an exchange as a Thing.
func Exchange(vhost, name string) Thing { return Thing{vhost, "exchange", name} }

// matched returns the name that patterns are matched with. It differs for the default exchange, whose name is empty.
func (t Thing) matched() string {
	if t.Kind == "exchange" && t.Name == "" {
		return defaultExchangeName
	}
	return t.Name
}

// refused refuses a right for an object. The answer is the same whether the object exists or not.
func (t Thing) refused(user, needed string) *failure.Error {
	return &failure.Error{
		Class: failure.AccessRefused, VHost: t.VHost, Kind: t.Kind, Name: t.matched(), Problem: failure.ProblemNoRight, User: user, Right: needed,
		Reason: "user " + strconv.Quote(user) + " has no " + needed + " access to it",
	}
}

// Permit refuses callers who lack one of the rights for an object (VH-6).
func (ps *Permissions) Permit(ctx context.Context, t Thing, rights ...right) error {
	who, err := ps.logins.Who(ctx)
	if err != nil || who == nil {
		return err
	}
	v := ps.view()
	g, err := ps.Permission(v, who, t.VHost)
	if err != nil {
		return err
	}
	for _, r := range rights {
		if !g.Matches(r, t.matched()) {
			return t.refused(who.User(), r.String())
		}
	}
	return nil
}

// PermitAny refuses callers who have none of the three rights for an object.
func (ps *Permissions) PermitAny(ctx context.Context, t Thing) error {
	who, err := ps.logins.Who(ctx)
	if err != nil || who == nil {
		return err
	}
	for r := Configure; r <= Read; r++ {
		if err = ps.Permit(ctx, t, r); err == nil {
			return nil
		}
	}
	if e, ok := err.(*failure.Error); ok && e.Class == failure.AccessRefused { //nolint:errorlint // permit wraps nothing
		e = t.refused(who.User(), "configure, write or read")
		e.Right = Configure.String()
		return e
	}
	return err
}

// PermitNew checks the rights that a new queue or exchange needs if it names an exchange that it sends messages on to
// (VH-6, VH-7).
func (ps *Permissions) PermitNew(ctx context.Context, t Thing, sendsTo string, sends bool) error {
	if !sends {
		return nil
	}
	if err := ps.Permit(ctx, t, Read); err != nil {
		return err
	}
	return ps.Permit(ctx, Exchange(t.VHost, sendsTo), Write)
}

// RefusedKey refuses a user without a right for a routing key of an exchange (VH-8).
func (t Thing) RefusedKey(user string, r right, key string) *failure.Error {
	e := t.refused(user, r.String())
	e.Arg, e.Value = "routing_key", strconv.Quote(key)
	e.Reason = "user " + strconv.Quote(user) + " has no " + r.String() + " access to this key of it"
	return e
}

// KeysWithin refuses the first key that is not within a user's topic permission for an exchange.
func (t Thing) KeysWithin(user string, keys []string, bounds *Grant) error {
	i := slices.IndexFunc(keys, func(key string) bool { return !bounds.Matches(Write, key) })
	if i < 0 {
		return nil
	}
	return t.RefusedKey(user, Write, keys[i])
}

// RequirePolicies refuses callers who may not set policies of a vhost. A caller needs the tag administrator or, except
// for operator policies, the tag policymaker and a permission in the vhost.
func (ps *Permissions) RequirePolicies(ctx context.Context, vhost string, operator bool) error {
	err := ps.logins.Require(ctx, identity.TagAdministrator)
	if err == nil || operator {
		return err
	}
	if err := ps.logins.Require(ctx, identity.TagPolicymaker); err != nil {
		return err
	}
	who, err := ps.logins.Who(ctx)
	if err != nil || who == nil {
		return err
	}
	v := ps.view()
	if ps.grantIn(v, who, vhost) == nil {
		return noAccess(who.User(), vhost)
	}
	return nil
}

// noAccess refuses a user without any permission in a vhost.
func noAccess(user, vhost string) *failure.Error {
	return &failure.Error{
		Class: failure.NotAllowed, VHost: vhost, Kind: "vhost", Name: vhost, Problem: failure.ProblemVHostForbidden, User: user,
		Reason: "user " + strconv.Quote(user) + " has no permission in it; set one first",
	}
}

// MayEnter reports whether a user has a permission in a vhost. It is true for nil: then clients do not log in.
func (ps *Permissions) MayEnter(v *catalog.View, who *identity.Identity, vhost string) bool {
	if who == nil {
		return true
	}
	_, err := ps.Permission(v, who, vhost)
	return err == nil
}
