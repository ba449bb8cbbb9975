package rest

import (
	"strings"

	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/audit"
)

// limitRoutes are about the limits of vhosts and users (VH-4, VH-14, VH-17).
func limitRoutes() []route {
	return []route{
		{method: "GET", path: "/api/vhost-limits", tag: management, serve: listVHostLimits, says: "the vhosts with limits"},
		{method: "GET", path: "/api/vhost-limits/{vhost}", tag: management, serve: getVHostLimits, says: "the limits of a vhost"},
		{method: "PUT", path: "/api/vhost-limits/{vhost}/{name}", tag: administrator, act: changesVHost(audit.OpVHostLimits), serve: putVHostLimit, says: "sets a limit of a vhost"},
		{method: "DELETE", path: "/api/vhost-limits/{vhost}/{name}", tag: administrator, act: changesVHost(audit.OpVHostLimits), serve: clearVHostLimit, says: "clears a limit of a vhost"},
		{method: "GET", path: "/api/user-limits", tag: administrator, serve: listUserLimits, says: "the users with limits"},
		{method: "GET", path: "/api/user-limits/{user}", tag: administrator, serve: getUserLimits, says: "the limits of a user"},
		{method: "PUT", path: "/api/user-limits/{user}/{name}", tag: administrator, act: limitsUser, serve: putUserLimit, says: "sets a limit of a user"},
		{method: "DELETE", path: "/api/user-limits/{user}/{name}", tag: administrator, act: limitsUser, serve: clearUserLimit, says: "clears a limit of a user"},
	}
}

func limitsUser(c *call) audit.Act {
	return audit.Act{Operation: audit.OpUserLimits, Kind: "user", Name: c.user()}
}

// user is the user of the path.
func (c *call) user() string { return c.PathValue("user") }

// limit adds a limit to an object, unless it is not set.
func (o object) limit(name string, n int64) {
	if n != administration.Unlimited {
		o[name] = n
	}
}

// valueOf returns the limit in the request's body.
func (c *call) valueOf() (int64, error) {
	body, err := c.object()
	if err != nil {
		return 0, err
	}
	if body["value"] == nil {
		return 0, bad("value", "", "is missing")
	}
	return body.number("value", 0)
}

// unknownLimit refuses the limit of the path; known has the names of those that exist.
func (c *call) unknownLimit(known []string) error {
	return bad("limit", c.name(), "is not known; want one of "+strings.Join(known, ", "))
}

// vhostLimits returns the limits of a vhost that are set.
func vhostLimits(h *administration.VHostInfo) object {
	out := object{}
	for _, l := range h.NamedLimits() {
		out.limit(l.Name, l.Value)
	}
	return out
}

// sendVHostLimits answers with the limits of vhosts, without those that have none.
func (c *call) sendVHostLimits(all []administration.VHostInfo) (reply, error) {
	var limited []administration.VHostInfo
	for i := range all {
		if len(vhostLimits(&all[i])) > 0 {
			limited = append(limited, all[i])
		}
	}
	return c.list(of(limited, func(h *administration.VHostInfo) string { return h.Name }, func(h *administration.VHostInfo) object {
		return object{"vhost": h.Name, "value": vhostLimits(h)}
	}), nil)
}

// listVHostLimits leaves out vhosts that the caller may not see.
func listVHostLimits(c *call) (reply, error) {
	all, err := c.api.Broker.Administration.ListVHosts(c.Context())
	if err != nil {
		return reply{}, err
	}
	return c.sendVHostLimits(all)
}

// getVHostLimits answers with an empty list for a vhost without limits.
func getVHostLimits(c *call) (reply, error) {
	h, err := c.visibleVHost()
	if err != nil {
		return reply{}, err
	}
	return c.sendVHostLimits([]administration.VHostInfo{h})
}

// putVHostLimit takes -1 for no limit, as RabbitMQ does.
func putVHostLimit(c *call) (reply, error) {
	n, err := c.valueOf()
	if err != nil {
		return reply{}, err
	}
	return c.setVHostLimit(n)
}

func clearVHostLimit(c *call) (reply, error) { return c.setVHostLimit(administration.Unlimited) }

// setVHostLimit changes one of the limits, which the broker only sets together. Two calls at the same time may undo one
// another.
func (c *call) setVHostLimit(n int64) (reply, error) {
	h, err := c.visibleVHost()
	if err != nil {
		return reply{}, err
	}
	if !h.SetLimit(c.name(), n) {
		var known []string
		for _, l := range h.NamedLimits() {
			known = append(known, l.Name)
		}
		return reply{}, c.unknownLimit(known)
	}
	return reply{}, c.api.Broker.Administration.SetVHostLimits(c.Context(), c.vhost(), h.VHostLimits)
}

// userLimits returns the limits of a user that are set.
func userLimits(u *administration.User) object {
	out := object{}
	for _, l := range u.NamedLimits() {
		out.limit(l.Name, l.Value)
	}
	return out
}

// sendUserLimits answers with the limits of users, without those that have none.
func (c *call) sendUserLimits(all []administration.User) (reply, error) {
	var limited []administration.User
	for i := range all {
		if len(userLimits(&all[i])) > 0 {
			limited = append(limited, all[i])
		}
	}
	return c.list(of(limited, func(u *administration.User) string { return u.Name }, func(u *administration.User) object {
		return object{"user": u.Name, "value": userLimits(u)}
	}), nil)
}

// listUserLimits leaves out users without limits.
func listUserLimits(c *call) (reply, error) {
	all, err := c.api.Broker.Administration.ListUsers()
	if err != nil {
		return reply{}, err
	}
	return c.sendUserLimits(all)
}

// userOfPath returns the user of the path.
func (c *call) userOfPath() (administration.User, error) {
	all, err := c.api.Broker.Administration.ListUsers()
	for _, u := range all {
		if u.Name == c.user() {
			return u, nil
		}
	}
	if err == nil {
		err = missing("user", "", c.user())
	}
	return administration.User{}, err
}

// getUserLimits answers with an empty list for a user without limits.
func getUserLimits(c *call) (reply, error) {
	u, err := c.userOfPath()
	if err != nil {
		return reply{}, err
	}
	return c.sendUserLimits([]administration.User{u})
}

// putUserLimit takes -1 for no limit, as RabbitMQ does.
func putUserLimit(c *call) (reply, error) {
	n, err := c.valueOf()
	if err != nil {
		return reply{}, err
	}
	return c.setUserLimit(n)
}

func clearUserLimit(c *call) (reply, error) { return c.setUserLimit(administration.Unlimited) }

// setUserLimit is setVHostLimit for a user.
func (c *call) setUserLimit(n int64) (reply, error) {
	u, err := c.userOfPath()
	if err != nil {
		return reply{}, err
	}
	if !u.SetLimit(c.name(), n) {
		var known []string
		for _, l := range u.NamedLimits() {
			known = append(known, l.Name)
		}
		return reply{}, c.unknownLimit(known)
	}
	return reply{}, c.api.Broker.Administration.SetUserLimits(c.Context(), c.user(), u.UserLimits)
}
