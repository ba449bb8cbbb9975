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

// UserLimits limit what a user opens and publishes; Unlimited stands for no limit (VH-4, VH-14).
type UserLimits = catalog.UserLimits

// NoUserLimits returns the limits of a user without limits.
func NoUserLimits() UserLimits { return catalog.NoUserLimits() }

// PutUser describes a user. A user with neither Password nor Hash cannot log in by password.
type PutUser struct {
	Name     string
	Password string // only its hash is stored
	// Hash is stored unchanged, in place of a password. Algorithm is one of package password, which
	// has those of RabbitMQ too.
	Hash, Algorithm string
	Tags            []string
}

// User is a user without the hash of its password.
type User struct {
	Name      string
	Algorithm string // of its password; "": the user has none
	Tags      []string
	UserLimits
}

// AboutUser returns an error that only names a user; callers add what is wrong.
func AboutUser(name string) failure.Error { return failure.Error{Kind: "user", Name: name} }

// UserChange has what changes about a user; everything else stays as it is (VH-10).
type UserChange struct {
	Name   string
	Create bool     // create the user if it is missing; else that is NotFound
	Tags   []string // nil: they stay
	// Password, or Hash and Algorithm, are as in PutUser. With neither, the password stays, unless
	// NoPassword removes it.
	Password, Hash, Algorithm string
	NoPassword                bool
}

// PutUser creates a user, or replaces everything but the limits of the existing one, and reports
// whether the user is new. It does not demote the last administrator (VH-10).
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

// ChangeUser changes parts of a user, and reports whether the user is new. It does not demote the
// last administrator or remove its password (VH-10).
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

// hashOf checks the name and the password of a user, and returns the hash to store.
func (ad *Administration) hashOf(ctx context.Context, u *PutUser) (hash, algorithm string, err error) {
	about := AboutUser(u.Name)
	// Clients send name and password together, with a colon after the name.
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

// proposeUser proposes a command about a user. Before VersionUsers is finalised, the catalog knows
// no ChangeUser and does not make sure that an administrator remains. Until then this node does
// both, based on its view; two changes at the same time can get past that.
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

// userState marks a refusal as one about the state of the cluster, unless it names an argument.
func userState(err error) error {
	if e, ok := errors.AsType[*failure.Error](err); ok && e.Arg != "" {
		return err
	}
	return failure.AsState(err)
}

// Check checks the password or the hash. Its errors contain neither, because errors are logged and
// shown.
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

// DeleteUser removes a user with its permissions, and reports whether there was one. It does not
// remove the last administrator (VH-10).
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
