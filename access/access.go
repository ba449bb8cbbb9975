// Package access says who somebody is who logs in: the contract of a source of identities, and
// the chain that asks one after the other. What an identity may do is decided by package broker.
//
// A backend that cannot tell is neither a refusal nor an acceptance: whoever fails here is
// Unavailable, and never let in (ID-1).
package access

import (
	"context"
	"fmt"
	"time"
)

// Bounds of logging in.
const (
	// MaxTokenBytes bounds a token, before anything of it is read.
	MaxTokenBytes = 16 << 10
	// MaxNameBytes bounds the name of an identity, as that of a user.
	MaxNameBytes = 255
)

// Credentials are what somebody shows who logs in.
type Credentials struct {
	// User is the name that was given; with a token it may be anything.
	User string
	// Secret is a password or a token.
	Secret string
	// Bearer reports that Secret was sent as a token and is no password.
	Bearer bool
	// Now is the time by which the credentials are judged.
	Now time.Time
}

// Right is what a permission gives at a name (VH-6).
type Right uint8

// The rights.
const (
	Configure Right = iota
	Write
	Read
)

// String returns the name of the right, as scopes and messages have it.
func (r Right) String() string { return [...]string{"configure", "write", "read"}[r] }

// Matcher reports whether a name is meant. Match may be called concurrently; with an error the name
// does not match.
type Matcher interface {
	Match(name string) (bool, error)
	// String shows in the log what the names are like.
	String() string
}

// Grant are the names that each Right is given at; nil: none.
type Grant [3]Matcher

// Rights are what an identity may do that has no user in the catalog. They never change, and may
// be used concurrently.
type Rights interface {
	// In returns what is granted in a vhost; false: nothing, it may not even be entered (VH-6).
	In(vhost string) (Grant, bool)
	// Topic returns the routing keys that Write and Read are granted at a topic exchange; false:
	// all of them (VH-8).
	Topic(vhost, exchange string) (Grant, bool)
}

// Identity is somebody who has logged in. It never changes.
type Identity struct {
	Name string
	Tags []string
	// Rights are nil for a user of the catalog, which has them.
	Rights Rights
	// Expires is when the identity ends; zero: never.
	Expires time.Time
}

// Ended reports whether the identity is over.
func (i *Identity) Ended(now time.Time) bool { return !i.Expires.IsZero() && !now.Before(i.Expires) }

// Backend is a source of identities. Its methods may be called concurrently.
type Backend interface {
	// Name is how the configuration and metrics call it.
	Name() string
	// Tokens reports that its secrets are JSON Web Tokens: it is asked for these alone, and first.
	Tokens() bool
	// Authenticate returns whom the credentials prove. Errors: *Refused if they are wrong, anything
	// else if it cannot tell, best *Unavailable. It returns when ctx ends.
	Authenticate(ctx context.Context, c Credentials) (*Identity, error)
}

// WrongPassword is the Reason of every refusal of a name and a password, whatever is wrong.
const WrongPassword = "user or password is wrong, or the user may log in from the nodes' own hosts alone"

// Refused is a definite no.
type Refused struct {
	// Reason says what is wrong with a token; never what is wrong with a name or a password.
	Reason string
	// Passing reports that the same credentials may be right a moment later.
	Passing bool
}

func (e *Refused) Error() string { return e.Reason }

// Unavailable reports that a backend cannot say now whether credentials are right.
type Unavailable struct {
	Backend string
	Cause   error
	// RetryAfter is when it may be able to; 0: nobody knows.
	RetryAfter time.Duration
}

func (e *Unavailable) Error() string {
	return fmt.Sprintf("backend %s cannot tell: %v", e.Backend, e.Cause)
}

func (e *Unavailable) Unwrap() error { return e.Cause }

// CheckName returns what is wrong with a name that a backend gives: names stand in logs, headers
// and messages.
func CheckName(name string) error {
	if name == "" || len(name) > MaxNameBytes {
		return fmt.Errorf("has %d bytes, 1 to %d are possible", len(name), MaxNameBytes)
	}
	for _, r := range name {
		if r < ' ' || r == 0x7f || r == '\ufffd' {
			return fmt.Errorf("contains %q", r)
		}
	}
	return nil
}
