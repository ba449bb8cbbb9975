package rest

import (
	"context"
	"strconv"
	"strings"

	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/internal/password"
	"github.com/quorate/quorate/management/login"
)

// maxBulkUsers bounds the users that one request deletes.
const maxBulkUsers = 1000

// userRoutes are about users; what they may do has its own file.
func userRoutes() []route {
	return []route{
		{method: "GET", path: "/api/users", tag: administrator, serve: listUsers, query: listQuery(), says: "all users"},
		{method: "GET", path: "/api/users/{$}", tag: administrator, serve: listUsers, query: listQuery(), says: "all users"},
		{method: "GET", path: "/api/users/without-permissions", tag: administrator, serve: listPowerlessUsers, query: listQuery(), says: "users that have a permission in no vhost"},
		{method: "POST", path: "/api/users/bulk-delete", tag: administrator, act: deletesUsers, serve: deleteUsers, says: "deletes the users that are there; body: users, a list of names"},
		{method: "GET", path: "/api/users/{name}", tag: administrator, serve: getUser, query: oneQuery(), says: "one user"},
		{method: "PUT", path: "/api/users/{name}", tag: administrator, act: changesUser(audit.OpUserPut), serve: putUser, says: "makes or replaces a user; body: tags, and password, or password_hash and hashing_algorithm"},
		{method: "DELETE", path: "/api/users/{name}", tag: administrator, act: changesUser(audit.OpUserDelete), serve: deleteUser, says: "deletes a user with its permissions"},
		{method: "PUT", path: "/v1/users/{name}/tags", tag: administrator, act: changesUser(audit.OpUserPut), serve: putUserTags, says: "sets the tags of a user, and nothing else; body: tags"},
		{method: "PUT", path: "/v1/users/{name}/password", tag: administrator, act: changesUser(audit.OpUserPut), serve: putUserPassword, says: "sets the password of a user, and nothing else; body: password, or password_hash and hashing_algorithm"},
		{method: "DELETE", path: "/v1/users/{name}/password", tag: administrator, act: changesUser(audit.OpUserPut), serve: clearUserPassword, says: "removes the password of a user, who can log in by other ways alone"},
		{method: "GET", path: "/api/auth/hash_password/{password}", tag: administrator, serve: hashPasswordOfPath, says: "the hash of a password, for a user or for definitions; a password in a path may be logged on its way"},
		{method: "POST", path: "/api/auth/hash_password", tag: administrator, serve: hashPasswordOfBody, says: "the hash of a password, for a user or for definitions; body: password"},
	}
}

// changesUser describes a change of the path's user.
func changesUser(op audit.Operation) func(c *call) audit.Act {
	return func(c *call) audit.Act { return audit.Act{Operation: op, Kind: "user", Name: c.name()} }
}

// ofUser gives a user the names of RabbitMQ's HTTP API. The hash of the password is empty here:
// tools want the field, but it is only in exported definitions, which are kept as secrets.
func ofUser(u *administration.User) object {
	limits := object{}
	for name, n := range map[string]int64{"max-connections": u.MaxConnections, "max-channels": u.MaxChannels} {
		if n != administration.Unlimited {
			limits[name] = n
		}
	}
	return object{
		"name": u.Name, "tags": orEmpty(u.Tags), "password_hash": "", "hashing_algorithm": u.Algorithm, "limits": limits,
	}
}

func nameOfUser(u *administration.User) string { return u.Name }

// listUsers shows no hashes of passwords, see ofUser.
func listUsers(c *call) (reply, error) {
	all, err := c.api.Broker.Administration.ListUsers()
	if err != nil {
		return reply{}, err
	}
	return c.list(of(all, nameOfUser, ofUser), nil)
}

// listPowerlessUsers finds users that may have been forgotten: they can log in and do nothing.
func listPowerlessUsers(c *call) (reply, error) {
	all, err := c.api.Broker.Administration.ListUsers()
	if err != nil {
		return reply{}, err
	}
	permissions, err := c.api.Broker.Administration.ListPermissions("", "")
	if err != nil {
		return reply{}, err
	}
	may := map[string]bool{}
	for i := range permissions {
		may[permissions[i].User] = true
	}
	var without []administration.User
	for i := range all {
		if !may[all[i].Name] {
			without = append(without, all[i])
		}
	}
	return c.list(of(without, nameOfUser, ofUser), nil)
}

// findUser returns a user that a path names.
func (c *call) findUser(name string) (administration.User, error) {
	all, err := c.api.Broker.Administration.ListUsers()
	if err != nil {
		return administration.User{}, err
	}
	for i := range all {
		if all[i].Name == name {
			return all[i], nil
		}
	}
	return administration.User{}, missing("user", "", name)
}

func getUser(c *call) (reply, error) {
	u, err := c.findUser(c.name())
	return reply{body: ofUser(&u)}, err
}

// putUser replaces the user as a whole, except its limits: without a password in the body, the user can no longer log
// in by password (VH-10).
func putUser(c *call) (reply, error) {
	f, err := c.object()
	if err != nil {
		return reply{}, err
	}
	u, err := userOf(c.name(), f)
	if err != nil {
		return reply{}, err
	}
	is, err := c.api.Broker.Administration.PutUser(c.Context(), u)
	return created(is), err
}

// userOf reads a user as a whole.
func userOf(name string, f fields) (administration.PutUser, error) {
	u := administration.PutUser{Name: name}
	var err error
	if u.Tags, err = f.tags(); err != nil {
		return u, err
	}
	return passwordOf(u, f)
}

// tags returns the tags of a user, which must be there.
func (f fields) tags() ([]string, error) {
	if f["tags"] == nil {
		return nil, bad("tags", "", "is missing; an empty list is a user without tags")
	}
	tags, err := f.texts("tags", nil)
	for i, t := range tags {
		tags[i] = strings.TrimSpace(t)
	}
	return orEmpty(tags), err
}

// passwordOf returns u with the password or hash of a body. A hash without an algorithm is one of RabbitMQ's oldest, as
// there, unless its form says that it is ours.
func passwordOf(u administration.PutUser, f fields) (administration.PutUser, error) {
	var err error
	if u.Password, err = f.text("password", ""); err != nil {
		return u, err
	}
	if u.Hash, err = f.text("password_hash", ""); err != nil || u.Hash == "" {
		return u, err
	}
	usual := string(password.RabbitSHA256)
	if strings.HasPrefix(u.Hash, "$"+string(password.Argon2id)+"$") {
		usual = string(password.Argon2id)
	}
	u.Algorithm, err = f.text("hashing_algorithm", usual)
	return u, err
}

// deleteUser does not delete the last administrator (VH-10).
func deleteUser(c *call) (reply, error) {
	was, err := c.api.Broker.Administration.DeleteUser(c.Context(), c.name())
	if err != nil {
		return reply{}, err
	}
	return gone(was, "user", "", c.name())
}

// deletesUsers describes a request that is refused as a whole; each user that is deleted has a
// record of its own.
func deletesUsers(*call) audit.Act { return audit.Act{Operation: audit.OpUserDelete, Kind: "user"} }

// deleteUsers stops at the first user that cannot be deleted. Those before it are gone.
func deleteUsers(c *call) (reply, error) {
	f, err := c.object()
	if err != nil {
		return reply{}, err
	}
	names, err := f.texts("users", nil)
	if err != nil {
		return reply{}, err
	}
	if f["users"] == nil || len(names) > maxBulkUsers {
		return reply{}, bad("users", strconv.Itoa(len(names))+" names", "want a list of up to "+strconv.Itoa(maxBulkUsers)+" names")
	}
	b := c.api.Broker
	for _, name := range names {
		act := audit.Act{Operation: audit.OpUserDelete, Kind: "user", Name: name, From: login.OriginOf(c.Request)}
		err := b.Audit.Audited(c.Context(), act, func(ctx context.Context) error {
			_, err := b.Administration.DeleteUser(ctx, name)
			return err
		})
		if err != nil {
			return reply{}, err
		}
	}
	return reply{}, nil
}

func hashPasswordOfPath(c *call) (reply, error) { return c.hashed(c.PathValue("password")) }

// hashPasswordOfBody is the way that leaves no password in logs of paths.
func hashPasswordOfBody(c *call) (reply, error) {
	f, err := c.object()
	if err != nil {
		return reply{}, err
	}
	text, err := f.need("password")
	if err != nil {
		return reply{}, err
	}
	return c.hashed(text)
}

// hashed answers with the hash of a password. It takes its turn among the logins, which costs as
// much.
func (c *call) hashed(text string) (reply, error) {
	u := administration.PutUser{Password: text}
	if err := u.Check(administration.AboutUser("")); err != nil {
		return reply{}, err
	}
	leave, err := c.api.Broker.Logins.Enter(c.Context())
	if err != nil {
		return reply{}, err
	}
	defer leave(true)
	hash, algorithm, err := password.Hash(text)
	return reply{body: object{"ok": hash, "hashing_algorithm": string(algorithm)}}, err
}
