package identity

import (
	"context"
	"errors"

	"github.com/quorate/quorate/access"
	"github.com/quorate/quorate/catalog"
)

// Certainty knows whether this node may answer from its view of the catalog: see package serving.
type Certainty interface {
	// Definite returns err if the view is fit to prove it, else the error that the caller gets
	// instead.
	Definite(context.Context, error) error
	// Current returns nil if the view was fresh when it was called.
	Current(context.Context) error
}

// InternalUsers is the name of the backend for the users of the catalog.
const InternalUsers = "internal"

// ownUsers is the backend for the users of the catalog.
type ownUsers struct {
	view      func() *catalog.View
	passwords *passwords
	throttle  *throttle
	certainty Certainty
}

// Name implements access.Backend.
func (ownUsers) Name() string { return InternalUsers }

// Tokens implements access.Backend.
func (ownUsers) Tokens() bool { return false }

// Remembered returns what this node knows about credentials of the user, provided that the user has
// not changed since.
func (o ownUsers) Remembered(c access.Credentials) (id *access.Identity, err error, known bool) { //nolint:revive // an answer, and whether there is one
	v := o.view()
	u, _ := v.User(c.User)
	d := o.passwords.digest("password", c.User, c.Secret)
	switch {
	case o.passwords.known(d, u):
		return &access.Identity{Name: c.User}, nil, true
	case o.throttle.wrong(d, u):
		return nil, wrongPassword(), true
	}
	return nil, nil, false
}

// Authenticate implements access.Backend. A node that has just started gets a newer view while it hashes a password: what
// that view has of the user is decisive (EX-16).
func (o ownUsers) Authenticate(ctx context.Context, c access.Credentials) (*access.Identity, error) {
	d := o.passwords.digest("password", c.User, c.Secret)
	for {
		u, _ := o.view().User(c.User)
		err := o.passwords.verify(ctx, u, c.Secret, d)
		if err == nil {
			return &access.Identity{Name: c.User}, nil
		}
		if _, wrong := errors.AsType[*access.Refused](err); !wrong {
			return nil, err
		}
		old := o.certainty.Current(ctx)
		if now, _ := o.view().User(c.User); now != u {
			continue
		}
		o.throttle.refuse(d, u)
		if u == nil && old != nil {
			return nil, old
		}
		return nil, err
	}
}
