package broker

import (
	"context"
	"strconv"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/internal/password"
)

// UserLimits bound what a user opens, Unlimited is no limit (VH-4).
type UserLimits = catalog.UserLimits

// MaxPasswordBytes bounds a password: hashing takes a time that grows with it.
const MaxPasswordBytes = 1 << 10

// PutUser describes a user. With neither Password nor Hash it cannot log in by password.
type PutUser struct {
	Name     string
	Password string // is hashed; nothing keeps it
	// Hash is stored as it is, in place of a password; Algorithm is one of package
	// password, RabbitMQ's included.
	Hash, Algorithm string
	Tags            []string
}

// User is a user without its password's hash.
type User struct {
	Name      string
	Algorithm string // of its password; "": it has none
	Tags      []string
	UserLimits
}

func aboutUser(name string) Error { return Error{Kind: "user", Name: name} }

// PutUser makes a user, or replaces all but the limits of the one that exists, and tells
// whether it is new.
func (b *Broker) PutUser(ctx context.Context, u PutUser) (created bool, err error) {
	about := aboutUser(u.Name)
	// A colon ends the name where name and password are sent together.
	if err := checkPlainName(u.Name, ":", about); err != nil {
		return false, err
	}
	cmd := catalog.PutUser{User: catalog.User{
		Name: u.Name, PasswordHash: u.Hash, Algorithm: u.Algorithm, Tags: u.Tags,
		UserLimits: UserLimits{MaxConnections: Unlimited, MaxChannels: Unlimited},
	}}
	if err := u.check(about); err != nil {
		return false, err
	}
	if u.Password != "" {
		leave, err := b.logins.enter(ctx)
		if err != nil {
			return false, err
		}
		defer leave()
		var a password.Algorithm
		if cmd.PasswordHash, a, err = password.Hash(u.Password); err != nil {
			return false, translate(err, about)
		}
		cmd.Algorithm = string(a)
	}
	reply, err := b.propose(ctx, about, &cmd, nil)
	return reply.Created, err
}

// check never tells a password or hash: errors are logged and shown.
func (u *PutUser) check(about Error) error {
	about.Class = PreconditionFailed
	switch {
	case len(u.Password) > MaxPasswordBytes:
		about.Arg, about.Value = "password", strconv.Itoa(len(u.Password))+" bytes"
		about.Reason = "the limit is " + strconv.Itoa(MaxPasswordBytes) + " bytes"
	case u.Password != "" && (u.Hash != "" || u.Algorithm != ""):
		about.Arg, about.Reason = "password", "is set, and a hash too; give one of them"
	case u.Password == "":
		err := password.Check(u.Hash, password.Algorithm(u.Algorithm))
		if err == nil {
			return nil
		}
		about.Arg, about.Reason = "password_hash", err.Error()
	default:
		return nil
	}
	return &about
}

// DeleteUser removes a user with its permissions, and tells whether there was one.
func (b *Broker) DeleteUser(ctx context.Context, name string) (deleted bool, err error) {
	reply, err := b.propose(ctx, aboutUser(name), &catalog.DeleteUser{Name: name}, nil)
	return reply.Deleted, err
}

// SetUserLimits replaces the limits of a user (VH-4).
func (b *Broker) SetUserLimits(ctx context.Context, name string, l UserLimits) error {
	_, err := b.propose(ctx, aboutUser(name), &catalog.SetUserLimits{User: name, Limits: l}, nil)
	return err
}

// ListUsers returns all users, sorted by name.
func (b *Broker) ListUsers() ([]User, error) {
	v, err := b.viewOf("")
	if err != nil {
		return nil, err
	}
	var out []User
	for u := range v.Users() {
		out = append(out, User{Name: u.Name, Algorithm: u.Algorithm, Tags: u.Tags, UserLimits: u.UserLimits})
	}
	return out, nil
}
