package rest

import (
	"strings"

	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/limits"
)

// limitRoutes are about the limits of vhosts and users (VH-4, VH-14, VH-17).
func limitRoutes() []route {
	return []route{
		{method: "GET", path: "/api/vhost-limits", tag: management, serve: listVHostLimits, query: listQuery(), says: "the vhosts with limits"},
		{method: "GET", path: "/api/vhost-limits/{vhost}", tag: management, serve: getVHostLimits, query: listQuery(), says: "the limits of a vhost"},
		{method: "PUT", path: "/api/vhost-limits/{vhost}/{name}", tag: administrator, act: changesVHost(audit.OpVHostLimits), serve: putVHostLimit, says: "sets a limit of a vhost"},
		{method: "DELETE", path: "/api/vhost-limits/{vhost}/{name}", tag: administrator, act: changesVHost(audit.OpVHostLimits), serve: clearVHostLimit, says: "clears a limit of a vhost"},
		{method: "GET", path: "/v1/vhosts/{vhost}/usage", tag: management, serve: getVHostUsage, says: "the limits of a vhost and how much of each is used on all nodes"},
		{method: "GET", path: "/v1/users/{user}/usage", tag: administrator, serve: getUserUsage, says: "the limits of a user and how much of each is used on all nodes"},
		{method: "GET", path: "/api/user-limits", tag: administrator, serve: listUserLimits, query: listQuery(), says: "the users with limits"},
		{method: "GET", path: "/api/user-limits/{user}", tag: management, serve: getUserLimits, query: listQuery(), says: "the limits of a user: the caller's own, and those of others for monitoring"},
		{method: "PUT", path: "/api/user-limits/{user}/{name}", tag: administrator, act: limitsUser, serve: putUserLimit, says: "sets a limit of a user"},
		{method: "DELETE", path: "/api/user-limits/{user}/{name}", tag: administrator, act: limitsUser, serve: clearUserLimit, says: "clears a limit of a user"},
	}
}

func limitsUser(c *call) audit.Act {
	return audit.Act{Operation: audit.OpUserLimits, Kind: "user", Name: c.user()}
}

// user is the user of the path.
func (c *call) user() string { return c.PathValue("user") }

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

// unknownLimit refuses the limit of the path; known are those that exist.
func (c *call) unknownLimit(known []administration.NamedLimit) error {
	names := make([]string, len(known))
	for i := range known {
		names[i] = known[i].Name
	}
	return bad("limit", c.name(), "is not known; want one of "+strings.Join(names, ", "))
}

// limitsOf returns the limits that are set.
func limitsOf(all []administration.NamedLimit) object {
	out := object{}
	for _, l := range all {
		if l.Value != administration.Unlimited {
			out[l.Name] = l.Value
		}
	}
	return out
}

// sendVHostLimits answers with the limits of vhosts, without those that have none.
func (c *call) sendVHostLimits(all []administration.VHostInfo) (reply, error) {
	var limited []administration.VHostInfo
	for i := range all {
		if len(limitsOf(all[i].NamedLimits())) > 0 {
			limited = append(limited, all[i])
		}
	}
	return c.list(of(limited, func(h *administration.VHostInfo) string { return h.Name }, func(h *administration.VHostInfo) object {
		return object{"vhost": h.Name, "value": limitsOf(h.NamedLimits())}
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
		return reply{}, c.unknownLimit(h.NamedLimits())
	}
	return reply{}, c.api.Broker.Administration.SetVHostLimits(c.Context(), c.vhost(), h.VHostLimits)
}

// sendUserLimits answers with the limits of users, without those that have none.
func (c *call) sendUserLimits(all []administration.User) (reply, error) {
	var limited []administration.User
	for i := range all {
		if len(limitsOf(all[i].NamedLimits())) > 0 {
			limited = append(limited, all[i])
		}
	}
	return c.list(of(limited, func(u *administration.User) string { return u.Name }, func(u *administration.User) object {
		return object{"user": u.Name, "value": limitsOf(u.NamedLimits())}
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

// getUserLimits answers with an empty list for a user without limits. As in RabbitMQ, callers may know their own.
func getUserLimits(c *call) (reply, error) {
	who, err := c.api.Broker.Logins.Who(c.Context())
	if err == nil && (who == nil || who.User() != c.user()) {
		err = c.api.Broker.Logins.Require(c.Context(), monitoring)
	}
	if err != nil {
		return reply{}, err
	}
	u, err := c.findUser(c.user())
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
	u, err := c.findUser(c.user())
	if err != nil {
		return reply{}, err
	}
	if !u.SetLimit(c.name(), n) {
		return reply{}, c.unknownLimit(u.NamedLimits())
	}
	return reply{}, c.api.Broker.Administration.SetUserLimits(c.Context(), c.user(), u.UserLimits)
}

func getVHostUsage(c *call) (reply, error) {
	all, err := c.api.Broker.Limits.VHostUsage(c.Context(), c.vhost())
	if err != nil {
		return reply{}, err
	}
	return reply{body: ofUsage(all), silent: c.silentNodes()}, nil
}

func getUserUsage(c *call) (reply, error) {
	all, err := c.api.Broker.Limits.UserUsage(c.Context(), c.user())
	if err != nil {
		return reply{}, err
	}
	return reply{body: ofUsage(all), silent: c.silentNodes()}, nil
}

// ofUsage shows limits with null for those that are not set, and for a use that nobody measures.
func ofUsage(all []limits.Usage) []object {
	out := make([]object, len(all))
	for i, u := range all {
		out[i] = object{"name": u.Name, "limit": nil, "used": nil}
		if u.Limit != administration.Unlimited {
			out[i]["limit"] = u.Limit
		}
		if u.Measured {
			out[i]["used"] = u.Used
		}
	}
	return out
}
