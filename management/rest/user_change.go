package rest

import "github.com/quorate/quorate/broker/administration"

// putUserTags leaves the password as it is, unlike putUser (VH-10).
func putUserTags(c *call) (reply, error) {
	f, err := c.object()
	if err != nil {
		return reply{}, err
	}
	tags, err := f.tags()
	if err != nil {
		return reply{}, err
	}
	_, err = c.api.Broker.Administration.ChangeUser(c.Context(), administration.UserChange{Name: c.name(), Tags: tags})
	return reply{}, err
}

// putUserPassword leaves the tags as they are.
func putUserPassword(c *call) (reply, error) {
	f, err := c.object()
	if err != nil {
		return reply{}, err
	}
	u, err := passwordOf(administration.PutUser{Name: c.name()}, f)
	if err != nil {
		return reply{}, err
	}
	if u.Password == "" && u.Hash == "" {
		return reply{}, bad("password", "", "is missing; DELETE removes the password of a user")
	}
	_, err = c.api.Broker.Administration.ChangeUser(c.Context(), administration.UserChange{
		Name: c.name(), Password: u.Password, Hash: u.Hash, Algorithm: u.Algorithm,
	})
	return reply{}, err
}

// clearUserPassword is refused for the last administrator that can log in by one (VH-10).
func clearUserPassword(c *call) (reply, error) {
	_, err := c.api.Broker.Administration.ChangeUser(c.Context(), administration.UserChange{Name: c.name(), NoPassword: true})
	return reply{}, err
}
