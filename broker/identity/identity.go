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

// The tags, which give a user rights beyond its permissions.
const (
	TagAdministrator = catalog.TagAdministrator // everything but what permissions govern
	TagManagement    = "management"             // reads all of the vhosts that it has a permission in
	TagPolicymaker   = "policymaker"            // that, and policies there
	TagMonitoring    = "monitoring"             // reads all that the API shows
	TagImpersonator  = "impersonator"           // publishes with any user_id (MSG-3)
)

// Identity is the user that a call or stream comes from: the result of Login. It never changes.
type Identity struct {
	user     *catalog.User // nil: this process itself
	byToken  bool
	expireMs int64 // of the token
	// mechanism is by what it was proved: one of the mechanisms, or a backend's name.
	mechanism string

	external bool          // no user of the catalog stands behind it
	rights   access.Rights // of an identity without a user; nil: what the catalog has under the name
	backend  string        // that an identity without a user comes from; "": none
	ends     time.Time     // of a backend's answer; zero: never
}

// externalIdentity is an identity without a user in the catalog.
func externalIdentity(name string, tags ...string) *Identity {
	return &Identity{external: true, byToken: true, user: &catalog.User{
		Name: name, Tags: tags, UserLimits: catalog.NoUserLimits(),
	}}
}

// by notes the mechanism of a login.
func by(mechanism string) func(*Identity, error) (*Identity, error) {
	return func(who *Identity, err error) (*Identity, error) {
		if who != nil {
			who.mechanism = mechanism
		}
		return who, err
	}
}

// User returns the name; "" is this process.
func (i *Identity) User() string {
	if i.user == nil {
		return ""
	}
	return i.user.Name
}

// Record returns the user as the catalog had it at the login. That of an identity without a user in
// the catalog is its own. Identities with the same record may do the same.
func (i *Identity) Record() *catalog.User { return i.user }

// Tags returns the user's tags at its login.
func (i *Identity) Tags() []string {
	if i.user == nil {
		return nil
	}
	return i.user.Tags
}

// ExpiresMs is when the login ends, in milliseconds since the Unix epoch; 0: it does not.
func (i *Identity) ExpiresMs() int64 { return i.expireMs }

// Itself is the identity of what a node does by itself: it may do everything.
func Itself() *Identity { return &Identity{} }

// ended is the error of calls after the login has ended.
func (i *Identity) ended() *failure.Error {
	return Unauthenticated("the login of user " + strconv.Quote(i.User()) + " has ended at " + i.ends.UTC().Format(time.RFC3339) + "; log in with a new token")
}

// identityKey is the key of the context's value with its Session.
type identityKey struct{}

// Session is the identity that the calls of a context come from, which Renew may change.
type Session struct{ who atomic.Pointer[Identity] }

// WithIdentity returns a context whose calls come from who.
func WithIdentity(ctx context.Context, who *Identity) context.Context {
	s := &Session{}
	s.who.Store(who)
	return context.WithValue(ctx, identityKey{}, s)
}

// SessionOf returns the session of a context's calls; nil: none was set.
func SessionOf(ctx context.Context) *Session {
	s, _ := ctx.Value(identityKey{}).(*Session)
	return s
}

// Unauthenticated is the refusal of a caller without, or with wrong, credentials.
func Unauthenticated(reason string) *failure.Error {
	return &failure.Error{Class: failure.AccessRefused, Kind: "login", Reason: reason, Unauthenticated: true}
}

// is reports whether a user has a tag, or one that stands above it.
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

// Is reports whether the identity has a tag, or one that stands above it.
func (i *Identity) Is(tag string) bool { return is(i.user, tag) }

// External reports that no user of the catalog stands behind the identity.
func (i *Identity) External() bool { return i.external }

// Rights are those of an identity without a user; nil: what the catalog has under the name.
func (i *Identity) Rights() access.Rights { return i.rights }

// Of returns the identity of a user of the catalog.
func Of(u *catalog.User) *Identity { return &Identity{user: u} }
