package catalog

// ChangeUser changes the parts of a user that are set here and leaves the rest, such as its limits.
// A missing user is NotFound unless Create is set; the new user then has only what is set here, and
// no limits.
type ChangeUser struct {
	Name   string
	Create bool

	SetTags bool
	Tags    []string

	SetPassword             bool
	PasswordHash, Algorithm string
	// Was is the hash that the user must have; "": any. It protects callers that have read the user
	// before.
	Was string
}

func (*ChangeUser) kind() commandKind { return kindChangeUser }

// append writes a flag before each optional part, so that "not named" and "empty" stay different.
func (c *ChangeUser) append(b []byte) []byte {
	b = appendBool(appendString(b, c.Name), c.Create)
	if b = appendBool(b, c.SetTags); c.SetTags {
		b = appendStrings(b, c.Tags)
	}
	if b = appendBool(b, c.SetPassword); c.SetPassword {
		b = appendString(appendString(b, c.PasswordHash), c.Algorithm)
	}
	return appendString(b, c.Was)
}

// changeUser reads what ChangeUser.append wrote.
func (r *reader) changeUser() *ChangeUser {
	c := &ChangeUser{Name: r.string("user"), Create: r.bool("create")}
	if c.SetTags = r.bool("set tags"); c.SetTags {
		c.Tags = r.strings("tags")
	}
	if c.SetPassword = r.bool("set password"); c.SetPassword {
		c.PasswordHash, c.Algorithm = r.string("password hash"), r.string("algorithm")
	}
	c.Was = r.string("former password hash")
	return c
}

// Of returns the user that the command makes of u; nil: of a missing user.
func (c *ChangeUser) Of(u *User) User {
	out := User{Name: c.Name, UserLimits: NoUserLimits()}
	if u != nil {
		out = *u
	}
	if c.SetTags {
		out.Tags = c.Tags
	}
	if c.SetPassword {
		out.PasswordHash, out.Algorithm = c.PasswordHash, c.Algorithm
	}
	return out
}

// changeUser applies the command to the user as it is now. Was makes it a compare-and-set: of two concurrent password
// changes that read the same hash, the second is refused.
func (v *View) changeUser(c *ChangeUser) (Reply, *Error) {
	e := Error{Code: CodePreconditionFailed, Kind: "user", Name: c.Name}
	old, exists := v.users.get(c.Name)
	switch {
	case !exists && !c.Create:
		return Reply{}, noUser(c.Name)
	case c.Was != "" && (!exists || old.PasswordHash != c.Was):
		e.Arg, e.Reason = "password", "was changed meanwhile"
		return Reply{}, &e
	}
	u := c.Of(old)
	if err := u.check(e); err != nil {
		return Reply{}, err
	}
	if err := v.setUser(u.Name, &u); err != nil {
		return Reply{}, err
	}
	return Reply{Created: !exists}, nil
}
