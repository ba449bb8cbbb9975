package catalog

import "slices"

// TagAdministrator is the tag of users who administer all others. The catalog knows it because it
// makes sure that one of them is left (VH-10).
const TagAdministrator = "administrator"

// governs reports whether the user is an administrator who can log in: it has a password, and its
// connection limit is not 0.
func (u *User) governs() bool {
	return slices.Contains(u.Tags, TagAdministrator) && u.PasswordHash != "" && u.MaxConnections != 0
}

// setUser replaces the user of a name; u must not be shared yet, and nil removes the user. It
// refuses to lose the last administrator who can log in, since nobody could make another one.
// Commands are applied one after the other, so of two that each remove one of two administrators
// the second is refused. Builds before VersionUsers do not check this, so no build does until that
// version is finalised.
func (v *View) setUser(name string, u *User) *Error {
	old, known := v.users.get(name)
	if v.version >= VersionUsers && known && old.governs() && (u == nil || !u.governs()) && !v.governedBesides(name) {
		return &Error{
			Code: CodePreconditionFailed, Kind: "user", Name: name,
			Reason: "is the last administrator who can log in; make another user with the tag administrator and a password first",
		}
	}
	if u == nil {
		v.users, v.declared = v.users.without(name), v.declared.without(name)
		return nil
	}
	u.since = 0
	switch {
	case known:
		u.since = old.since
	case v.version >= VersionDeclarers:
		u.since = v.index
	}
	v.users = v.users.set(name, u)
	return nil
}

// governedBesides reports whether another user is an administrator who can log in.
func (v *View) governedBesides(name string) (found bool) {
	v.users.each(func(other string, u *User) bool {
		found = other != name && u.governs()
		return !found
	})
	return found
}
