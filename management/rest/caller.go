package rest

import "context"

// callerRoutes are about the caller.
func callerRoutes() []route {
	return []route{
		{method: "GET", path: "/api/whoami", tag: management, always: true, serve: whoami, query: oneQuery(), says: "who the caller is"},
	}
}

func whoami(c *call) (reply, error) { return reply{body: c.api.whoIs(c.Context())}, nil }

// whoIs shows the caller of a context; the name is empty where the node asks for no logins.
func (a *api) whoIs(ctx context.Context) object {
	out := object{"name": "", "tags": []string{}}
	if who, err := a.Broker.Logins.Who(ctx); err == nil && who != nil {
		out["name"], out["tags"] = who.User(), who.Tags()
	}
	return out
}
