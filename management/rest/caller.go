package rest

// callerRoutes are about the caller.
func callerRoutes() []route {
	return []route{
		{method: "GET", path: "/api/whoami", tag: management, always: true, serve: whoami, query: oneQuery(), says: "who the caller is"},
	}
}

// whoami names the caller; the name is empty where the node asks for no logins.
func whoami(c *call) (reply, error) {
	out := object{"name": "", "tags": []string{}}
	if who, err := c.api.Broker.Logins.Who(c.Context()); err == nil && who != nil {
		out["name"], out["tags"] = who.User(), who.Tags()
	}
	return reply{body: out}, nil
}
