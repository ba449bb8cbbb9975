// Package access establishes identities at login. It defines what a source of identities must do
// and the chain that asks several of them in turn. What an identity may do is decided by package
// broker.
//
// A backend that cannot decide has neither refused nor accepted: the login fails as Unavailable and
// lets nobody in (ID-1).
package access

import (
	"context"
	"fmt"
	"time"
)

// Limits on what a client may send to log in.
const (
	// MaxTokenBytes bounds a token. It is checked before any part of the token is read.
	MaxTokenBytes = 16 << 10
	// MaxNameBytes bounds the name of an identity; users have the same bound.
	MaxNameBytes = 255
)

// Credentials are what a client presents to log in.
type Credentials struct {
	// User is the given user name. With a token it may be anything.
	User string
	// Secret is a password or a token.
	Secret string
	// Bearer reports that Secret was sent as a bearer token and not as a password.
	Bearer bool
	// Now is the time against which the credentials are judged.
	Now time.Time
}

// Right is one of the rights that a permission grants on a name (VH-6).
type Right uint8

// The rights.
const (
	Configure Right = iota
	Write
	Read
)

// String returns the name of the right, as scopes and messages have it.
func (r Right) String() string { return [...]string{"configure", "write", "read"}[r] }

// Matcher decides whether a name is granted. Match may be called concurrently. If it returns an
// error, the name does not match.
type Matcher interface {
	Match(name string) (bool, error)
	// String describes the pattern for the log.
	String() string
}

// Grant has the names on which each Right is granted; nil: none.
type Grant [3]Matcher

// Rights are the rights of an identity that has no user in the catalog. They never change and may
// be used concurrently.
type Rights interface {
	// In returns what is granted in a vhost; false: the identity may not even enter it (VH-6).
	In(vhost string) (Grant, bool)
	// Topic returns the routing keys on which Write and Read are granted at a topic exchange; false:
	// all keys (VH-8).
	Topic(vhost, exchange string) (Grant, bool)
}

// Identity is an authenticated user. It never changes.
type Identity struct {
	Name string
	Tags []string
	// Rights are nil for a user of the catalog, which holds that user's rights.
	Rights Rights
	// Expires is when the identity expires; zero: never.
	Expires time.Time
}

// Ended reports whether the identity has expired.
func (i *Identity) Ended(now time.Time) bool { return !i.Expires.IsZero() && !now.Before(i.Expires) }

// Backend is a source of identities. Its methods may be called concurrently.
type Backend interface {
	// Name is the backend's name in the configuration and in metrics.
	Name() string
	// Tokens reports that the backend's secrets are JSON Web Tokens. It is asked about these alone,
	// and before the others.
	Tokens() bool
	// Authenticate returns the identity that the credentials prove. Errors: *Refused if the
	// credentials are wrong, any other error, preferably *Unavailable, if the backend cannot decide.
	// It returns when ctx ends.
	Authenticate(ctx context.Context, c Credentials) (*Identity, error)
}

// WrongPassword is the Reason of every refusal of a name and password, whatever is wrong with them.
const WrongPassword = "wrong user or password, or the user may log in only from the nodes' own hosts" //nolint:gosec // a text for clients

// Refused is a definite refusal.
type Refused struct {
	// Reason is what is wrong with a token. It never reveals what is wrong with a name or password.
	Reason string
	// Passing reports that the same credentials may be accepted a moment later.
	Passing bool
}

func (e *Refused) Error() string { return e.Reason }

// Unavailable reports that a backend cannot decide at present whether credentials are right.
type Unavailable struct {
	Backend string
	Cause   error
	// RetryAfter is when the backend may be able to decide; 0: unknown.
	RetryAfter time.Duration
}

func (e *Unavailable) Error() string {
	return fmt.Sprintf("backend %s cannot decide: %v", e.Backend, e.Cause)
}

func (e *Unavailable) Unwrap() error { return e.Cause }

// CheckName returns what is wrong with a name from a backend. Names end up in logs, headers and
// messages, so they must be harmless there.
func CheckName(name string) error {
	if name == "" || len(name) > MaxNameBytes {
		return fmt.Errorf("has %d bytes, want 1 to %d", len(name), MaxNameBytes)
	}
	for _, r := range name {
		if r < ' ' || r == 0x7f || r == '\ufffd' {
			return fmt.Errorf("contains %q", r)
		}
	}
	return nil
}
