package access

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
)

// remembers is a Backend that knows some answers without a call.
type remembers interface {
	// Remembered returns the answer for the credentials if it is known.
	Remembered(c Credentials) (id *Identity, err error, known bool)
}

// vouches is a Backend that recognises clients which do not guess passwords.
type vouches interface {
	// Vouched reports whether the credentials were right a while ago.
	Vouched(c Credentials) bool
}

// Counts are a backend's answers since the start of the process.
type Counts struct{ Accepted, Refused, Unavailable uint64 }

// member is a backend of a chain with its counts.
type member struct {
	Backend
	accepted, refused, unavailable atomic.Uint64
}

// Chain asks backends in turn until one accepts. Its methods may be called concurrently.
type Chain struct{ members []*member }

// NewChain returns the chain of backends in their order.
func NewChain(backends ...Backend) *Chain {
	c := &Chain{}
	for _, b := range backends {
		c.members = append(c.members, &member{Backend: b})
	}
	return c
}

// Counts returns the counts by the names of the backends.
func (c *Chain) Counts() map[string]Counts {
	out := make(map[string]Counts, len(c.members))
	for _, m := range c.members {
		out[m.Name()] = Counts{m.accepted.Load(), m.refused.Load(), m.unavailable.Load()}
	}
	return out
}

// Unsure is the error when one backend could not decide, which is the Cause, and another one
// refused.
type Unsure struct{ Cause error }

func (e *Unsure) Error() string { return e.Cause.Error() }

func (e *Unsure) Unwrap() error { return e.Cause }

// Authenticate returns the identity that the credentials prove, and the name of the backend that
// accepted them. Before the first backend has to do real work it calls admit once; an error of
// admit ends the login. Errors: *Refused if all backends refuse; the error of admit; or the error
// of the first backend that could not decide (ID-1), wrapped in *Unsure if others refused.
func (c *Chain) Authenticate(ctx context.Context, cred Credentials, admit func() error) (id *Identity, by string, err error) {
	return c.ask(ctx, cred, admit, func(*member) bool { return true })
}

// Again is Authenticate with one backend alone.
func (c *Chain) Again(ctx context.Context, by string, cred Credentials, admit func() error) (*Identity, error) {
	id, _, err := c.ask(ctx, cred, admit, func(m *member) bool { return m.Name() == by })
	return id, err
}

// ask runs Authenticate over the backends that among lets through. The order of the answers
// decides: the first identity ends the search, an outage outweighs a refusal, because the backend
// that is down might have accepted (ID-1). admit is called at most once, and only when a backend must really check
// credentials for which it has not vouched.
func (c *Chain) ask(
	ctx context.Context, cred Credentials, admit func() error, among func(*member) bool,
) (id *Identity, by string, err error) {
	var untold error
	var refused *Refused
	admitted := false
	for _, m := range c.order(cred) {
		if !among(m) {
			continue
		}
		id, err, known := m.remembered(cred)
		if !known && !admitted && !m.vouched(cred) {
			if err := admit(); err != nil {
				return nil, "", err
			}
			admitted = true
		}
		if !known {
			id, err = m.Authenticate(ctx, cred)
		}
		if err == nil && (id == nil || id.Ended(cred.Now)) {
			err = &Refused{Reason: "the login has expired"}
		}
		no, isNo := errors.AsType[*Refused](err)
		switch {
		case err == nil:
			m.accepted.Add(1)
			return id, m.Name(), nil
		case isNo:
			m.refused.Add(1)
			if refused == nil { // for a token the backends asked first give the most precise reason
				refused = no
			}
		default:
			m.unavailable.Add(1)
			if untold == nil {
				untold = err
			}
		}
	}
	if untold != nil && refused != nil {
		return nil, "", &Unsure{untold}
	}
	if untold != nil {
		return nil, "", untold
	}
	if refused == nil {
		refused = &Refused{Reason: "no backend of this cluster accepts tokens of this kind"}
	}
	return nil, "", refused
}

// remembered returns the cached answer of a backend that keeps one; known is false for every other
// backend.
func (m *member) remembered(cred Credentials) (id *Identity, err error, known bool) { //nolint:revive // an answer, and whether there is one
	if r, ok := m.Backend.(remembers); ok {
		return r.Remembered(cred)
	}
	return nil, nil, false
}

func (m *member) vouched(cred Credentials) bool {
	r, ok := m.Backend.(vouches)
	return ok && r.Vouched(cred)
}

// order returns the backends that apply to the credentials; those that recognise them by their form
// come first.
func (c *Chain) order(cred Credentials) (out []*member) {
	token := isToken(cred)
	for _, m := range c.members {
		if m.Tokens() && token {
			out = append(out, m)
		}
	}
	for _, m := range c.members {
		if !m.Tokens() && !cred.Bearer {
			out = append(out, m)
		}
	}
	return out
}

func isToken(c Credentials) bool { return c.Bearer || IsJWT(c.Secret) }

// IsJWT reports whether a text has the form of a signed JSON Web Token. It does not examine a text
// that is too long.
func IsJWT(text string) bool {
	if len(text) > MaxTokenBytes || strings.Count(text, ".") != 2 {
		return false
	}
	first, _, _ := strings.Cut(text, ".")
	head, err := base64.RawURLEncoding.DecodeString(first)
	var h struct {
		Algorithm *string `json:"alg"`
	}
	return err == nil && json.Unmarshal(head, &h) == nil && h.Algorithm != nil
}
