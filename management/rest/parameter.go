package rest

import (
	"encoding/json"

	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/audit"
)

// parameterRoutes are about parameters. They came with definitions and have no effect (VH-9), so the paths show and
// remove them. Global ones, which are notes about the cluster, can be set.
func parameterRoutes() []route {
	const parameter = "/api/parameters/{component}/{vhost}/{name}"
	return []route{
		{method: "GET", path: "/api/parameters", tag: policymaker, serve: listParameters, query: listQuery(), says: "the parameters in all vhosts that the caller may see"},
		{method: "GET", path: "/api/parameters/{component}", tag: policymaker, serve: listParameters, query: listQuery(), says: "the parameters of a component"},
		{method: "GET", path: "/api/parameters/{component}/{vhost}", tag: policymaker, serve: listParameters, query: listQuery(), says: "the parameters of a component in a vhost"},
		{method: "GET", path: parameter, tag: policymaker, serve: getParameter, query: oneQuery(), says: "one parameter"},
		{method: "PUT", path: parameter, tag: policymaker, serve: putParameter, says: "refuses a parameter, as nothing would heed it"},
		{method: "DELETE", path: parameter, tag: administrator, act: changesParameter(audit.OpParameterDelete, "parameter"), serve: deleteParameter, says: "removes a parameter that was imported"},
		{method: "GET", path: "/api/global-parameters", tag: policymaker, serve: listGlobals, query: listQuery(), says: "the global parameters"},
		{method: "GET", path: "/api/global-parameters/{name}", tag: policymaker, serve: getGlobal, query: oneQuery(), says: "one global parameter"},
		{method: "PUT", path: "/api/global-parameters/{name}", tag: administrator, act: changesParameter(audit.OpParameterPut, "global parameter"), serve: putGlobal, says: "sets a global parameter"},
		{method: "DELETE", path: "/api/global-parameters/{name}", tag: administrator, act: changesParameter(audit.OpParameterDelete, "global parameter"), serve: deleteGlobal, says: "removes a global parameter"},
	}
}

// changesParameter describes a change of the path's parameter.
func changesParameter(op audit.Operation, kind string) func(c *call) audit.Act {
	return func(c *call) audit.Act { return audit.Act{Operation: op, VHost: c.vhost(), Kind: kind, Name: c.name()} }
}

// component is the component of the path; "" where the path has none.
func (c *call) component() string { return c.PathValue("component") }

// ofParameter gives a parameter the names that RabbitMQ's HTTP API has.
func ofParameter(p *administration.Parameter) object {
	out := object{"name": p.Name, "value": json.RawMessage(p.Value)}
	if p.VHost != "" {
		out["vhost"], out["component"] = p.VHost, p.Component
	}
	return out
}

// parameterName is what parameters are listed by.
func parameterName(p *administration.Parameter) string { return p.Name }

// parameters returns the parameters of the path's component and vhost, or of all.
func (c *call) parameters() ([]administration.Parameter, error) {
	vhosts := []string{c.vhost()}
	if c.vhost() == "" {
		all, err := c.api.Broker.Administration.ListVHosts(c.Context())
		if err != nil {
			return nil, err
		}
		vhosts = vhosts[:0]
		for i := range all {
			vhosts = append(vhosts, all[i].Name)
		}
	}
	var out []administration.Parameter
	for _, vhost := range vhosts {
		more, err := c.api.Broker.Administration.ListParameters(c.Context(), vhost)
		if err != nil {
			return nil, err
		}
		for _, p := range more {
			if c.component() == "" || p.Component == c.component() {
				out = append(out, p)
			}
		}
	}
	return out, nil
}

// listParameters leaves out vhosts that the caller may not see.
func listParameters(c *call) (reply, error) {
	all, err := c.parameters()
	if err != nil {
		return reply{}, err
	}
	return c.list(of(all, parameterName, ofParameter), nil)
}

// sendParameter answers with the one of the path's name.
func (c *call) sendParameter(all []administration.Parameter, kind string) (reply, error) {
	for i := range all {
		if all[i].Name == c.name() {
			return reply{body: ofParameter(&all[i])}, nil
		}
	}
	return reply{}, missing(kind, c.vhost(), c.name())
}

// getParameter looks among those of the path's component and vhost.
func getParameter(c *call) (reply, error) {
	all, err := c.parameters()
	if err != nil {
		return reply{}, err
	}
	return c.sendParameter(all, "parameter")
}

// putParameter refuses, and names the path that replaces some of RabbitMQ's components.
func putParameter(c *call) (reply, error) {
	reason := "nothing here reads parameters of a component"
	switch c.component() {
	case "policy":
		reason = "put it to /api/policies"
	case "operator_policy":
		reason = "put it to /api/operator-policies"
	case "vhost-limits":
		reason = "put it to /api/vhost-limits"
	}
	return reply{}, bad("component", c.component(), reason)
}

// deleteParameter removes what an import left; nothing depends on it.
func deleteParameter(c *call) (reply, error) {
	was, err := c.api.Broker.Administration.DeleteParameter(c.Context(), c.vhost(), c.component(), c.name())
	if err != nil {
		return reply{}, err
	}
	return gone(was, "parameter", c.vhost(), c.name())
}

// listGlobals leaves out what the broker keeps for itself.
func listGlobals(c *call) (reply, error) {
	all, err := c.api.Broker.Administration.ListParameters(c.Context(), "")
	if err != nil {
		return reply{}, err
	}
	return c.list(of(all, parameterName, ofParameter), nil)
}

// getGlobal shows only what listGlobals does.
func getGlobal(c *call) (reply, error) {
	all, err := c.api.Broker.Administration.ListParameters(c.Context(), "")
	if err != nil {
		return reply{}, err
	}
	return c.sendParameter(all, "global parameter")
}

// putGlobal takes any JSON value, null too.
func putGlobal(c *call) (reply, error) {
	body, err := c.object()
	if err != nil {
		return reply{}, err
	}
	v, is := body["value"]
	if !is {
		return reply{}, bad("value", "", "is missing")
	}
	text, err := json.Marshal(v)
	if err != nil {
		return reply{}, bad("value", "", err.Error())
	}
	isNew, err := c.api.Broker.Administration.PutGlobalParameter(c.Context(), c.name(), string(text))
	return created(isNew), err
}

// deleteGlobal cannot reach what the broker keeps for itself, which has a component.
func deleteGlobal(c *call) (reply, error) {
	was, err := c.api.Broker.Administration.DeleteParameter(c.Context(), "", "", c.name())
	if err != nil {
		return reply{}, err
	}
	return gone(was, "global parameter", "", c.name())
}
