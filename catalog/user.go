package catalog

import (
	"fmt"
	"slices"
)

// User may log in and do what its tags and permissions allow (VH-1).
type User struct {
	Name string
	// PasswordHash has the form of Algorithm, which internal/password defines; empty: the user cannot
	// log in by password.
	PasswordHash string
	Algorithm    string
	Tags         []string
	UserLimits
	// since is the index of the command that made the user; 0: it is older than VersionDeclarers.
	since uint64
}

// Permission grants a user rights in a vhost by three patterns (VH-6). An empty pattern matches
// nothing.
type Permission struct{ User, VHost, Configure, Write, Read string }

// TopicPermission restricts the routing keys with which a user may publish and bind at one topic
// exchange (VH-8).
type TopicPermission struct{ User, VHost, Exchange, Write, Read string }

func (p *TopicPermission) identity() string { return keyPart(p.User) + keyPart(p.Exchange) }

// PutUser creates a user, or replaces everything but the limits of an existing one.
type PutUser struct {
	User
	OnlyNew bool // refuse to change one that exists
}

// DeleteUser removes a user and its permissions. A missing one is fine.
type DeleteUser struct{ Name string }

// SetUserLimits replaces the limits of a user (VH-4).
type SetUserLimits struct {
	User   string
	Limits UserLimits
}

// SetPermission sets what a user may do in a vhost (VH-6). Patterns are checked by the
// proposer.
type SetPermission struct {
	Permission
	OnlyNew bool // refuse to change those that exist
}

// ClearPermission takes all permissions of a user in a vhost. None is fine.
type ClearPermission struct{ User, VHost string }

// SetTopicPermission sets a topic permission (VH-8). Patterns are checked by the proposer.
type SetTopicPermission struct {
	TopicPermission
	OnlyNew bool // refuse to change one that exists
}

// ClearTopicPermission removes the topic permissions of a user for an exchange, or for all
// of the vhost if Exchange is "". None is fine.
type ClearTopicPermission struct{ User, VHost, Exchange string }

func (*PutUser) kind() commandKind              { return kindPutUser }
func (*DeleteUser) kind() commandKind           { return kindDeleteUser }
func (*SetUserLimits) kind() commandKind        { return kindSetUserLimits }
func (*SetPermission) kind() commandKind        { return kindSetPermission }
func (*ClearPermission) kind() commandKind      { return kindClearPermission }
func (*SetTopicPermission) kind() commandKind   { return kindSetTopicPermission }
func (*ClearTopicPermission) kind() commandKind { return kindClearTopicPermission }

func (c *PutUser) append(b []byte) []byte {
	return appendNewer(appendBool(appendUser(b, &c.User), c.OnlyNew), c.each(), Since(c))
}

func (c *DeleteUser) append(b []byte) []byte { return appendString(b, c.Name) }
func (c *SetUserLimits) append(b []byte) []byte {
	return appendNewer(appendUserLimits(appendString(b, c.User), c.Limits), c.Limits.each(), Since(c))
}

func (c *SetPermission) append(b []byte) []byte {
	return appendBool(appendPermission(b, &c.Permission), c.OnlyNew)
}

func (c *ClearPermission) append(b []byte) []byte {
	return appendString(appendString(b, c.User), c.VHost)
}

func (c *SetTopicPermission) append(b []byte) []byte {
	return appendBool(appendTopicPermission(b, &c.TopicPermission), c.OnlyNew)
}

func (c *ClearTopicPermission) append(b []byte) []byte {
	return appendString(appendString(appendString(b, c.User), c.VHost), c.Exchange)
}

// putUser makes or replaces a user. An existing one keeps its limits, which have a command of their
// own (VH-10).
func (v *View) putUser(c *PutUser) (Reply, *Error) {
	e := Error{Code: CodePreconditionFailed, Kind: "user", Name: c.Name}
	if err := c.check(e); err != nil {
		return Reply{}, err
	}
	u := c.User
	old, exists := v.users.get(c.Name)
	if exists {
		if u.UserLimits = old.UserLimits; c.OnlyNew {
			return Reply{}, e.onlyNew(u.equal(old))
		}
	}
	if err := v.setUser(u.Name, &u); err != nil {
		return Reply{}, err
	}
	return Reply{Created: !exists}, nil
}

func (u *User) equal(o *User) bool {
	return u.PasswordHash == o.PasswordHash && u.Algorithm == o.Algorithm && slices.Equal(u.Tags, o.Tags)
}

// check bounds what is stored. The hash was made by the proposer; the catalog knows no algorithms.
func (u *User) check(e Error) *Error {
	switch {
	case u.Name == "":
		e.Arg, e.Reason = "name", "is empty"
		return &e
	case !e.nameFits(u.Name):
		return &e
	}
	if err := e.textFits("password_hash", u.PasswordHash); err != nil {
		return err
	}
	if err := e.textFits("hashing_algorithm", u.Algorithm); err != nil {
		return err
	}
	if err := e.tagsFit(u.Tags); err != nil {
		return err
	}
	return u.UserLimits.check(e)
}

// deleteUser removes the user and, in every vhost, its permissions: a later user of the name starts
// without rights.
func (v *View) deleteUser(c *DeleteUser) (Reply, *Error) {
	if _, ok := v.users.get(c.Name); !ok {
		return Reply{}, nil
	}
	if err := v.setUser(c.Name, nil); err != nil {
		return Reply{}, err
	}
	v.vhosts.each(func(name string, h vhost) bool {
		if _, has := h.permissions.get(c.Name); has {
			h.permissions = h.permissions.without(c.Name)
			v.vhosts = v.vhosts.set(name, h)
		}
		if cleared, any := h.withoutTopicPermissions(c.Name, ""); any {
			v.vhosts = v.vhosts.set(name, cleared)
		}
		return true
	})
	return Reply{Deleted: true}, nil
}

// setUserLimits replaces all limits of the user at once.
func (v *View) setUserLimits(c *SetUserLimits) (Reply, *Error) {
	u, ok := v.users.get(c.User)
	if !ok {
		return Reply{}, noUser(c.User)
	}
	if err := c.Limits.check(Error{Code: CodePreconditionFailed, Kind: "user", Name: c.User}); err != nil {
		return Reply{}, err
	}
	changed := *u
	changed.UserLimits = c.Limits
	if err := v.setUser(c.User, &changed); err != nil {
		return Reply{}, err
	}
	return Reply{}, nil
}

func noUser(name string) *Error {
	return &Error{Code: CodeNotFound, Kind: "user", Name: name, Reason: "does not exist; add it first"}
}

// userIn returns the vhost of a permission, after checking that the user exists.
func (v *View) userIn(user, vhostName string) (vhost, *Error) {
	h, ok := v.vhosts.get(vhostName)
	if !ok {
		return vhost{}, noVHost(vhostName)
	}
	if _, ok := v.users.get(user); !ok {
		return vhost{}, noUser(user)
	}
	return h, nil
}

// patternsFit bounds the length of patterns; the proposer has compiled them.
func (e Error) patternsFit(patterns ...string) *Error {
	for _, p := range patterns {
		if len(p) > MaxPatternBytes {
			e.Arg, e.Reason = "pattern", fmt.Sprintf("%d bytes, the limit is %d", len(p), MaxPatternBytes)
			return &e
		}
	}
	return nil
}

// setPermission replaces the user's three patterns in a vhost. User and vhost must exist.
func (v *View) setPermission(c *SetPermission) (Reply, *Error) {
	h, err := v.userIn(c.User, c.VHost)
	if err != nil {
		return Reply{}, err
	}
	e := Error{Code: CodePreconditionFailed, Kind: "permission", Name: c.User, VHost: c.VHost}
	if err := e.patternsFit(c.Configure, c.Write, c.Read); err != nil {
		return Reply{}, err
	}
	p := c.Permission
	old, exists := h.permissions.get(c.User)
	if exists && c.OnlyNew {
		return Reply{}, e.onlyNew(p == *old)
	}
	h.permissions = h.permissions.set(c.User, &p)
	v.vhosts = v.vhosts.set(c.VHost, h)
	return Reply{Created: !exists}, nil
}

// clearPermission takes the user's permissions in a vhost; none to take is fine.
func (v *View) clearPermission(c *ClearPermission) (Reply, *Error) {
	h, err := v.userIn(c.User, c.VHost)
	if err != nil {
		return Reply{}, err
	}
	if _, has := h.permissions.get(c.User); !has {
		return Reply{}, nil
	}
	h.permissions = h.permissions.without(c.User)
	v.vhosts = v.vhosts.set(c.VHost, h)
	return Reply{Deleted: true}, nil
}

// setTopicPermission sets a topic permission at an exchange that exists and is a topic exchange
// (VH-8).
func (v *View) setTopicPermission(c *SetTopicPermission) (Reply, *Error) {
	h, err := v.userIn(c.User, c.VHost)
	if err != nil {
		return Reply{}, err
	}
	e := Error{Code: CodePreconditionFailed, Kind: "topic permission", Name: c.User, VHost: c.VHost}
	if x, ok := h.exchanges.get(c.Exchange); !ok {
		return Reply{}, noExchange(c.VHost, c.Exchange)
	} else if !x.rec.HasTopicKeys() {
		e.Arg, e.Reason = "exchange", fmt.Sprintf("%q is of type %s, want a topic exchange", c.Exchange, x.rec.Type)
		return Reply{}, &e
	}
	if err := e.patternsFit(c.Write, c.Read); err != nil {
		return Reply{}, err
	}
	p := c.TopicPermission
	old, exists := h.topicPermissions.get(p.identity())
	if exists && c.OnlyNew {
		return Reply{}, e.onlyNew(p == *old)
	}
	h.topicPermissions = h.topicPermissions.set(p.identity(), &p)
	v.vhosts = v.vhosts.set(c.VHost, h)
	return Reply{Created: !exists}, nil
}

// clearTopicPermission removes the topic permissions at one exchange, or at all of the vhost for
// "".
func (v *View) clearTopicPermission(c *ClearTopicPermission) (Reply, *Error) {
	h, err := v.userIn(c.User, c.VHost)
	if err != nil {
		return Reply{}, err
	}
	h, any := h.withoutTopicPermissions(c.User, c.Exchange)
	v.vhosts = v.vhosts.set(c.VHost, h)
	return Reply{Deleted: any}, nil
}

// withoutTopicPermissions removes the topic permissions of a user at an exchange, or at all
// exchanges for "".
func (h vhost) withoutTopicPermissions(user, exchange string) (_ vhost, any bool) {
	before := h.topicPermissions
	before.each(func(ident string, p *TopicPermission) bool {
		if p.User == user && (exchange == "" || p.Exchange == exchange) {
			h.topicPermissions, any = h.topicPermissions.without(ident), true
		}
		return true
	})
	return h, any
}

func appendUser(b []byte, u *User) []byte {
	b = appendString(appendString(appendString(b, u.Name), u.PasswordHash), u.Algorithm)
	return appendUserLimits(appendStrings(b, u.Tags), u.UserLimits)
}

func appendUserLimits(b []byte, l UserLimits) []byte { return appendFirst(b, l.each()) }

// appendPermission writes a permission, in commands and snapshots alike.
func appendPermission(b []byte, p *Permission) []byte {
	for _, s := range [...]string{p.User, p.VHost, p.Configure, p.Write, p.Read} {
		b = appendString(b, s)
	}
	return b
}

// appendTopicPermission writes a topic permission, in commands and snapshots alike.
func appendTopicPermission(b []byte, p *TopicPermission) []byte {
	for _, s := range [...]string{p.User, p.VHost, p.Exchange, p.Write, p.Read} {
		b = appendString(b, s)
	}
	return b
}

// user reads a user with the limits of the first version.
func (r *reader) user() User {
	return User{
		Name: r.string("user"), PasswordHash: r.string("password hash"), Algorithm: r.string("algorithm"),
		Tags: r.strings("tags"), UserLimits: r.userLimits(),
	}
}

// putUser reads the command; newer limits follow the flag.
func (r *reader) putUser() *PutUser {
	c := &PutUser{User: r.user(), OnlyNew: r.bool("only new")}
	r.readNewer(c.each())
	return c
}

// setUserLimits reads the command; newer limits follow those of the first version.
func (r *reader) setUserLimits() *SetUserLimits {
	c := &SetUserLimits{User: r.string("user"), Limits: r.userLimits()}
	r.readNewer(c.Limits.each())
	return c
}

// permission reads what appendPermission wrote.
func (r *reader) permission() Permission {
	return Permission{
		User: r.string("user"), VHost: r.string("vhost"),
		Configure: r.string("configure"), Write: r.string("write"), Read: r.string("read"),
	}
}

// topicPermission reads what appendTopicPermission wrote.
func (r *reader) topicPermission() TopicPermission {
	return TopicPermission{
		User: r.string("user"), VHost: r.string("vhost"), Exchange: r.string("exchange"),
		Write: r.string("write"), Read: r.string("read"),
	}
}
