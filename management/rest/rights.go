package rest

import (
	"maps"
	"slices"

	"github.com/quorate/quorate/broker/permission"
)

// rightsRoutes return what callers may do, so that a user interface need not offer what would be refused.
func rightsRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/rights", tag: management, serve: listRights, says: "the virtual hosts in which the caller has a permission, and which rights it gives for any name"},
		{method: "GET", path: "/v1/queues/{vhost}/{name}/rights", tag: management, serve: rightsToQueue, says: "what the caller may do to a queue, whether it exists or not"},
		{method: "GET", path: "/v1/exchanges/{vhost}/{name}/rights", tag: management, serve: rightsToExchange, says: "the same of an exchange; amq.default is the default exchange"},
	}
}

// ofRights shows rights by their names.
func ofRights(r permission.Rights) object {
	return object{"configure": r.Configure, "write": r.Write, "read": r.Read}
}

func listRights(c *call) (reply, error) {
	in, err := c.api.Broker.Permissions.RightsIn(c.Context())
	if err != nil {
		return reply{}, err
	}
	all := []object{}
	for _, vhost := range slices.Sorted(maps.Keys(in)) {
		o := ofRights(in[vhost])
		o["vhost"] = vhost
		all = append(all, o)
	}
	return reply{body: all}, nil
}

func rightsToQueue(c *call) (reply, error) {
	r, err := c.api.Broker.Permissions.RightsTo(c.Context(), permission.Queue(c.vhost(), c.name()))
	return reply{body: ofRights(r)}, err
}

func rightsToExchange(c *call) (reply, error) {
	r, err := c.api.Broker.Permissions.RightsTo(c.Context(), permission.Exchange(c.vhost(), c.exchange()))
	return reply{body: ofRights(r)}, err
}
