package identity

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/access"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
)

// The tags. They give a user rights beyond its permissions.
const (
	TagAdministrator = catalog.TagAdministrator // everything except what permissions govern
	TagManagement    = "management"             // reads everything in the vhosts where it has a permission
	TagPolicymaker   = "policymaker"            // the same, and changes policies there
	TagMonitoring    = "monitoring"             // reads everything that the API shows
	TagImpersonator  = "impersonator"           // publishes with any user_id (MSG-3)
)

// Identity is the user that a call or stream comes from, as a login found it. It never changes.
type Identity struct {
	user     *catalog.User // nil: the node itself
	byToken  bool
	expireMs int64 // when the token ends
	// mechanism is how the login was proved: one of the audit's mechanisms, or the name of a backend.
	mechanism string

	external bool          // the catalog has no user for it
	rights   access.Rights // of an external identity; nil: those that the catalog has for the name
	backend  string        // the backend that an external identity comes from; "": none
	ends     time.Time     // when the answer of the backend ends; zero: never
}

// externalIdentity returns an identity for which the catalog has no user.
func externalIdentity(name string, tags ...string) *Identity {
	return &Identity{external: true, byToken: true, user: &catalog.User{
		Name: name, Tags: tags, UserLimits: catalog.NoUserLimits(),
	}}
}

// by wraps a login: it records the mechanism of the identity, if there is one.
func by(mechanism string) func(*Identity, error) (*Identity, error) {
	return func(who *Identity, err error) (*Identity, error) {
		if who != nil {
			who.mechanism = mechanism
		}
		return who, err
	}
}

// User returns the name of the user, "" for the node itself.
func (i *Identity) User() string {
	if i.user == nil {
		return ""
	}
	return i.user.Name
}

// Record returns the user as the catalog had it at the login. An external identity has a record of
// its own. Identities with the same record have the same rights.
func (i *Identity) Record() *catalog.User { return i.user }

// Tags returns the tags of the user at the login.
func (i *Identity) Tags() []string {
	if i.user == nil {
		return nil
	}
	return i.user.Tags
}

// ExpiresMs returns when the login ends, in milliseconds since the Unix epoch; 0: never.
func (i *Identity) ExpiresMs() int64 { return i.expireMs }

// Itself returns the identity of the node itself, which may do everything.
func Itself() *Identity { return &Identity{} }

// ended returns the error of calls after the login has ended.
func (i *Identity) ended() *failure.Error {
	return Unauthenticated("the login of user " + strconv.Quote(i.User()) + " has ended at " + i.ends.UTC().Format(time.RFC3339) + "; log in with a new token")
}

// identityKey is the key of the Session in a context.
type identityKey struct{}

// Session holds the identity that the calls of a context come from. Renew may replace it.
type Session struct{ who atomic.Pointer[Identity] }

// WithIdentity returns a context for calls of who.
func WithIdentity(ctx context.Context, who *Identity) context.Context {
	s := &Session{}
	s.who.Store(who)
	return context.WithValue(ctx, identityKey{}, s)
}

// SessionOf returns the session of a context, nil if it has none.
func SessionOf(ctx context.Context) *Session {
	s, _ := ctx.Value(identityKey{}).(*Session)
	return s
}

// Unauthenticated refuses a caller without credentials, or with wrong ones.
func Unauthenticated(reason string) *failure.Error {
	return &failure.Error{Class: failure.AccessRefused, Kind: "login", Reason: reason, Unauthenticated: true}
}

// is reports whether a user has a tag, or one that includes it.
func is(u *catalog.User, tag string) bool {
	has := func(tag string) bool { return slices.Contains(u.Tags, tag) }
	switch {
	case has(tag):
		return true
	case tag == TagImpersonator:
		return false
	case tag == TagManagement:
		return has(TagAdministrator) || has(TagPolicymaker) || has(TagMonitoring)
	}
	return has(TagAdministrator)
}

// Is reports whether the identity has a tag, or one that includes it.
func (i *Identity) Is(tag string) bool { return is(i.user, tag) }

// External reports whether the catalog has no user for the identity.
func (i *Identity) External() bool { return i.external }

// Rights returns the rights of an external identity; nil: those that the catalog has for the name.
func (i *Identity) Rights() access.Rights { return i.rights }

// Of returns the identity for a user of the catalog.
func Of(u *catalog.User) *Identity { return &Identity{user: u} }
