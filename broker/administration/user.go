package administration

import (
	"context"
	"errors"
	"strconv"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/names"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/internal/password"
)

// UserLimits bound what a user opens and does, Unlimited is no limit (VH-4, VH-14).
type UserLimits = catalog.UserLimits

// NoUserLimits are those of a user that has none.
func NoUserLimits() UserLimits { return catalog.NoUserLimits() }

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

// AboutUser names a user in errors.
func AboutUser(name string) failure.Error { return failure.Error{Kind: "user", Name: name} }

// UserChange is what of a user changes; the rest stays (VH-10).
type UserChange struct {
	Name   string
	Create bool     // a missing user is made, with what is here; else it is NotFound
	Tags   []string // nil: they stay
	// Password, or Hash and Algorithm, are as in PutUser; with neither the password stays,
	// unless NoPassword takes it away.
	Password, Hash, Algorithm string
	NoPassword                bool
}

// PutUser makes a user, or replaces all but the limits of the one that exists, and reports
// whether it is new. The last administrator is not demoted (VH-10).
func (ad *Administration) PutUser(ctx context.Context, u PutUser) (created bool, err error) {
	hash, algorithm, err := ad.hashOf(ctx, &u)
	if err != nil {
		return false, err
	}
	reply, err := ad.proposeUser(ctx, u.Name, &catalog.PutUser{User: catalog.User{
		Name: u.Name, PasswordHash: hash, Algorithm: algorithm, Tags: u.Tags,
		UserLimits: catalog.NoUserLimits(),
	}})
	return reply.Created, err
}

// ChangeUser changes a user in part, and reports whether it is new. The last administrator is not
// demoted, and keeps a password (VH-10).
func (ad *Administration) ChangeUser(ctx context.Context, u UserChange) (created bool, err error) {
	hash, algorithm, err := ad.hashOf(ctx, &PutUser{Name: u.Name, Password: u.Password, Hash: u.Hash, Algorithm: u.Algorithm})
	if err != nil {
		return false, err
	}
	if u.NoPassword && hash != "" {
		about := AboutUser(u.Name)
		about.Class, about.Arg, about.Reason = failure.PreconditionFailed, "password", "is given and taken away; choose one"
		return false, &about
	}
	reply, err := ad.proposeUser(ctx, u.Name, &catalog.ChangeUser{
		Name: u.Name, Create: u.Create, SetTags: u.Tags != nil, Tags: u.Tags,
		SetPassword: u.NoPassword || hash != "", PasswordHash: hash, Algorithm: algorithm,
	})
	return reply.Created, err
}

// hashOf checks name and password of a user, and hashes what is not hashed yet.
func (ad *Administration) hashOf(ctx context.Context, u *PutUser) (hash, algorithm string, err error) {
	about := AboutUser(u.Name)
	// A colon ends the name where name and password are sent together.
	if err := names.CheckPlain(u.Name, ":", about); err != nil {
		return "", "", err
	}
	if err := u.Check(about); err != nil {
		return "", "", err
	}
	if u.Password == "" {
		return u.Hash, u.Algorithm, nil
	}
	leave, err := ad.logins.Enter(ctx)
	if err != nil {
		return "", "", err
	}
	defer leave(true)
	hash, a, err := password.Hash(u.Password)
	return hash, string(a), failure.Translate(err, about)
}

// proposeUser is propose for a command about a user. Before VersionUsers is finalised there is
// no ChangeUser, and the catalog does not see to it that an administrator is left: until then
// this node does both by what it knows, which two changes at once can outrun.
func (ad *Administration) proposeUser(ctx context.Context, name string, cmd catalog.Command) (catalog.Reply, error) {
	about := AboutUser(name)
	v := ad.view()
	if v.Version() < catalog.VersionUsers {
		trial := catalog.From(v)
		trial.Apply(v.Index(), v.Now(), &catalog.RaiseVersion{Version: catalog.VersionUsers})
		if r := trial.Apply(v.Index(), v.Now(), cmd); r.Err != nil {
			return catalog.Reply{}, userState(failure.Translate(r.Err, about))
		}
		if c, is := cmd.(*catalog.ChangeUser); is {
			old, _ := v.User(c.Name)
			cmd = &catalog.PutUser{User: c.Of(old)}
		}
	}
	reply, err := ad.commands.Propose(ctx, about, cmd, nil)
	return reply, userState(err)
}

// userState is asState for refusals that blame no argument.
func userState(err error) error {
	if e, ok := errors.AsType[*failure.Error](err); ok && e.Arg != "" {
		return err
	}
	return failure.AsState(err)
}

// Check names no password or hash: errors are logged and shown.
func (u *PutUser) Check(about failure.Error) error {
	about.Class = failure.PreconditionFailed
	switch {
	case len(u.Password) > identity.MaxPasswordBytes:
		about.Arg, about.Value = "password", strconv.Itoa(len(u.Password))+" bytes"
		about.Reason = "the limit is " + strconv.Itoa(identity.MaxPasswordBytes) + " bytes"
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

// DeleteUser removes a user with its permissions, and reports whether there was one. The last
// administrator stays (VH-10).
func (ad *Administration) DeleteUser(ctx context.Context, name string) (deleted bool, err error) {
	reply, err := ad.proposeUser(ctx, name, &catalog.DeleteUser{Name: name})
	return reply.Deleted, err
}

// SetUserLimits replaces the limits of a user (VH-4).
func (ad *Administration) SetUserLimits(ctx context.Context, name string, l UserLimits) error {
	_, err := ad.proposeUser(ctx, name, &catalog.SetUserLimits{User: name, Limits: l})
	return err
}

// ListUsers returns all users, sorted by name.
func (ad *Administration) ListUsers() ([]User, error) {
	v, err := ad.serving.ViewOf("")
	if err != nil {
		return nil, err
	}
	var out []User
	for u := range v.Users() {
		out = append(out, User{Name: u.Name, Algorithm: u.Algorithm, Tags: u.Tags, UserLimits: u.UserLimits})
	}
	return out, nil
}
