package rest

import (
	"maps"
	"slices"

	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/audit"
)

// permissionRoutes are about what users may do in vhosts (VH-6), and which routing keys they may
// use there (VH-8).
func permissionRoutes() []route {
	return []route{
		{method: "GET", path: "/api/permissions", tag: administrator, serve: listPermissions, query: listQuery(), says: "what users may do in vhosts"},
		{method: "GET", path: "/api/vhosts/{vhost}/permissions", tag: administrator, serve: listPermissions, query: listQuery(), says: "what users may do in a vhost"},
		{method: "GET", path: "/api/users/{user}/permissions", tag: administrator, serve: listPermissions, query: listQuery(), says: "what a user may do in vhosts"},
		{method: "GET", path: "/api/permissions/{vhost}/{user}", tag: administrator, serve: getPermission, query: oneQuery(), says: "what a user may do in a vhost"},
		{method: "PUT", path: "/api/permissions/{vhost}/{user}", tag: administrator, act: changesPermission(audit.OpPermissionSet), serve: setPermission, says: "sets what a user may do in a vhost; body: configure, write and read, patterns of names"},
		{method: "DELETE", path: "/api/permissions/{vhost}/{user}", tag: administrator, act: changesPermission(audit.OpPermissionClear), serve: clearPermission, says: "keeps a user out of a vhost"},

		{method: "GET", path: "/api/topic-permissions", tag: administrator, serve: listTopicPermissions, query: listQuery(), says: "the routing keys that users may use"},
		{method: "GET", path: "/api/vhosts/{vhost}/topic-permissions", tag: administrator, serve: listTopicPermissions, query: listQuery(), says: "the routing keys that users may use in a vhost"},
		{method: "GET", path: "/api/users/{user}/topic-permissions", tag: administrator, serve: listTopicPermissions, query: listQuery(), says: "the routing keys that a user may use"},
		{method: "GET", path: "/api/topic-permissions/{vhost}/{user}", tag: administrator, serve: getTopicPermissions, query: listQuery(), says: "the routing keys that a user may use in a vhost"},
		{method: "PUT", path: "/api/topic-permissions/{vhost}/{user}", tag: administrator, act: changesTopicPermission(audit.OpTopicPermissionSet), serve: setTopicPermission, says: "limits the routing keys of a user at a topic exchange; body: exchange, write and read"},
		{method: "DELETE", path: "/api/topic-permissions/{vhost}/{user}", tag: administrator, act: changesTopicPermission(audit.OpTopicPermissionClear), serve: clearTopicPermission, says: "ends all limits of a user's routing keys in a vhost"},
		{method: "DELETE", path: "/api/topic-permissions/{vhost}/{user}/{exchange}", tag: administrator, act: changesTopicPermission(audit.OpTopicPermissionClear), serve: clearTopicPermission, says: "ends the limit of a user's routing keys at an exchange"},
	}
}

// changesPermission describes a change of what the path's user may do in the path's vhost.
func changesPermission(op audit.Operation) func(c *call) audit.Act {
	return func(c *call) audit.Act {
		return audit.Act{Operation: op, VHost: c.vhost(), Kind: "permission", Name: c.user()}
	}
}

// changesTopicPermission is changesPermission for routing keys.
func changesTopicPermission(op audit.Operation) func(c *call) audit.Act {
	return func(c *call) audit.Act {
		return audit.Act{Operation: op, VHost: c.vhost(), Kind: "topic permission", Name: c.user()}
	}
}

// ofPermission gives a permission the names of RabbitMQ's HTTP API.
func ofPermission(p *administration.Permission) object {
	return object{"user": p.User, "vhost": p.VHost, "configure": p.Configure, "write": p.Write, "read": p.Read}
}

// permissions returns those of the path's user; where the path has none, those of all users.
func (c *call) permissions(vhost string) ([]administration.Permission, error) {
	if err := c.userIsKnown(); err != nil {
		return nil, err
	}
	return c.api.Broker.Administration.ListPermissions(vhost, c.user())
}

// userIsKnown refuses a path whose user does not exist.
func (c *call) userIsKnown() error {
	if c.user() == "" {
		return nil
	}
	_, err := c.findUser(c.user())
	return err
}

// listPermissions serves all paths of lists: of all, of a vhost, and of a user.
func listPermissions(c *call) (reply, error) {
	all, err := c.permissions(c.vhost())
	if err != nil {
		return reply{}, err
	}
	return c.list(of(all, func(p *administration.Permission) string { return p.User }, ofPermission), nil)
}

// getPermission distinguishes a user that is missing from one that has no permission in the vhost.
func getPermission(c *call) (reply, error) {
	all, err := c.permissions(c.vhost())
	if err != nil {
		return reply{}, err
	}
	if len(all) == 0 {
		return reply{}, missing("permission", c.vhost(), c.user())
	}
	return reply{body: ofPermission(&all[0])}, nil
}

// setPermission wants all three patterns, as RabbitMQ does: an absent one could mean all or nothing.
func setPermission(c *call) (reply, error) {
	f, err := c.object()
	if err != nil {
		return reply{}, err
	}
	p := administration.Permission{User: c.user(), VHost: c.vhost()}
	if err := f.fill(map[string]*string{"configure": &p.Configure, "write": &p.Write, "read": &p.Read}); err != nil {
		return reply{}, err
	}
	is, err := c.api.Broker.Administration.SetPermission(c.Context(), p)
	return created(is), err
}

// fill reads fields that must be there.
func (f fields) fill(into map[string]*string) error {
	for _, name := range slices.Sorted(maps.Keys(into)) {
		text, err := f.need(name)
		if err != nil {
			return err
		}
		*into[name] = text
	}
	return nil
}

// clearPermission keeps the user out of the vhost, which three empty patterns would not.
func clearPermission(c *call) (reply, error) {
	was, err := c.api.Broker.Administration.ClearPermission(c.Context(), c.vhost(), c.user())
	if err != nil {
		return reply{}, err
	}
	return gone(was, "permission", c.vhost(), c.user())
}

// ofTopicPermission gives a topic permission the names of RabbitMQ's HTTP API.
func ofTopicPermission(p *administration.TopicPermission) object {
	return object{"user": p.User, "vhost": p.VHost, "exchange": p.Exchange, "write": p.Write, "read": p.Read}
}

// topicPermissions is permissions for routing keys.
func (c *call) topicPermissions(vhost string) ([]administration.TopicPermission, error) {
	if err := c.userIsKnown(); err != nil {
		return nil, err
	}
	return c.api.Broker.Administration.ListTopicPermissions(vhost, c.user())
}

// listTopicPermissions serves all paths of lists: of all, of a vhost, and of a user.
func listTopicPermissions(c *call) (reply, error) {
	all, err := c.topicPermissions(c.vhost())
	if err != nil {
		return reply{}, err
	}
	return c.list(rowsOfTopics(all), nil)
}

// rowsOfTopics makes rows of topic permissions, named by their users.
func rowsOfTopics(all []administration.TopicPermission) rows {
	return of(all, func(p *administration.TopicPermission) string { return p.User }, ofTopicPermission)
}

// getTopicPermissions answers with a list, as a user may have one for each exchange.
func getTopicPermissions(c *call) (reply, error) {
	all, err := c.topicPermissions(c.vhost())
	if err != nil {
		return reply{}, err
	}
	if len(all) == 0 {
		return reply{}, missing("topic permission", c.vhost(), c.user())
	}
	return c.list(rowsOfTopics(all), nil)
}

// setTopicPermission wants both patterns and the exchange, as RabbitMQ does.
func setTopicPermission(c *call) (reply, error) {
	f, err := c.object()
	if err != nil {
		return reply{}, err
	}
	p := administration.TopicPermission{User: c.user(), VHost: c.vhost()}
	if err := f.fill(map[string]*string{"exchange": &p.Exchange, "write": &p.Write, "read": &p.Read}); err != nil {
		return reply{}, err
	}
	is, err := c.api.Broker.Administration.SetTopicPermission(c.Context(), p)
	return created(is), err
}

// clearTopicPermission serves the path with an exchange and the one without, which means all.
func clearTopicPermission(c *call) (reply, error) {
	was, err := c.api.Broker.Administration.ClearTopicPermission(c.Context(), c.vhost(), c.user(), c.PathValue("exchange"))
	if err != nil {
		return reply{}, err
	}
	return gone(was, "topic permission", c.vhost(), c.user())
}
