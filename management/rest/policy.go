package rest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/message"
)

// policyRoutes are about policies and operator policies (PO-1, PO-5).
func policyRoutes() []route {
	return append(policyKind{}.routes("/api/policies", "policies"),
		policyKind{operator: true}.routes("/api/operator-policies", "operator policies")...)
}

// policyKind distinguishes operator policies from those of users; both have the same routes.
type policyKind struct{ operator bool }

// kind is what a policy of this kind is called.
func (k policyKind) kind() string {
	if k.operator {
		return "operator policy"
	}
	return "policy"
}

// routes returns the routes below a path; many is what the policies are called.
func (k policyKind) routes(path, many string) []route {
	one := k.kind()
	act := func(op audit.Operation) func(c *call) audit.Act {
		return func(c *call) audit.Act { return audit.Act{Operation: op, VHost: c.vhost(), Kind: one, Name: c.name()} }
	}
	return []route{
		{method: "GET", path: path, tag: management, serve: k.list, query: listQuery(), says: many + " of all vhosts that the caller may see"},
		{method: "GET", path: path + "/{vhost}", tag: management, serve: k.list, query: listQuery(), says: many + " of a vhost"},
		{method: "GET", path: path + "/{vhost}/{name}", tag: management, serve: k.get, query: oneQuery(), says: "one " + one},
		{method: "PUT", path: path + "/{vhost}/{name}", tag: management, act: act(audit.OpPolicyPut), serve: k.put, says: "makes or replaces a " + one},
		{method: "DELETE", path: path + "/{vhost}/{name}", tag: management, act: act(audit.OpPolicyDelete), serve: k.remove, says: "deletes a " + one},
		{method: "POST", path: strings.Replace(path, "/api/", "/v1/", 1) + "/{vhost}/{name}/preview", tag: management, serve: k.preview, says: "what a " + one + " would change, without changing it; body: as to put it, or delete = true"},
	}
}

// ofPolicy gives a policy the names that RabbitMQ's HTTP API has.
func ofPolicy(p *administration.Policy) object {
	return object{
		"vhost": p.VHost, "name": p.Name, "pattern": p.Pattern, "apply-to": p.ApplyTo, "priority": p.Priority,
		"definition": shown(p.Definition),
	}
}

// all returns the policies of this kind, in the vhosts of eachVHost.
func (k policyKind) all(c *call) ([]administration.Policy, error) {
	var out []administration.Policy
	err := c.eachVHost(func(vhost string) error {
		more, err := c.api.Broker.Administration.ListPolicies(c.Context(), vhost)
		for i := range more {
			if more[i].Operator == k.operator {
				out = append(out, more[i])
			}
		}
		return err
	})
	return out, err
}

// list leaves out vhosts that the caller may not see.
func (k policyKind) list(c *call) (reply, error) {
	all, err := k.all(c)
	if err != nil {
		return reply{}, err
	}
	return c.list(of(all, func(p *administration.Policy) string { return p.Name }, ofPolicy), nil)
}

// get looks among the policies of the path's vhost.
func (k policyKind) get(c *call) (reply, error) {
	all, err := k.all(c)
	if err != nil {
		return reply{}, err
	}
	for i := range all {
		if all[i].Name == c.name() {
			return reply{body: ofPolicy(&all[i])}, nil
		}
	}
	return reply{}, missing(k.kind(), c.vhost(), c.name())
}

// put refuses callers who may not set policies before it reads the body.
func (k policyKind) put(c *call) (reply, error) {
	b := c.api.Broker
	if err := b.Permissions.RequirePolicies(c.Context(), c.vhost(), k.operator); err != nil {
		return reply{}, err
	}
	body, err := c.object()
	if err != nil {
		return reply{}, err
	}
	p, err := k.read(c, body)
	if err != nil {
		return reply{}, err
	}
	isNew, err := b.Administration.PutPolicy(c.Context(), p)
	return created(isNew), err
}

// read returns the policy of a body, under the name of the path.
func (k policyKind) read(c *call, body fields) (administration.Policy, error) {
	p := administration.Policy{VHost: c.vhost(), Name: c.name(), Operator: k.operator}
	var errs [5]error
	p.Pattern, errs[0] = body.need("pattern")
	p.ApplyTo, errs[1] = body.text("apply-to", "")
	p.Priority, errs[2] = body.number("priority", 0)
	p.Definition, errs[3] = body.table("definition")
	if body["definition"] == nil {
		errs[4] = bad("definition", "", "is missing")
	}
	return p, errors.Join(errs[:]...)
}

// maxPreviews bounds the policies that are previewed at the same time: each takes a processor for up to some seconds.
const maxPreviews = 2

// preview needs the same tag as put: it has to check all queues of the vhost.
func (k policyKind) preview(c *call) (reply, error) {
	b := c.api.Broker
	if err := b.Permissions.RequirePolicies(c.Context(), c.vhost(), k.operator); err != nil {
		return reply{}, err
	}
	body, err := c.object()
	if err != nil {
		return reply{}, err
	}
	gone, err := body.flag("delete", false)
	if err != nil {
		return reply{}, err
	}
	p := administration.Policy{VHost: c.vhost(), Name: c.name(), Operator: k.operator}
	if !gone {
		if p, err = k.read(c, body); err != nil {
			return reply{}, err
		}
	}
	select {
	case c.api.previews <- struct{}{}:
		defer func() { <-c.api.previews }()
	default:
		return reply{}, &failure.Error{
			Class: failure.ResourceExhausted, Kind: "policy", RetryAfter: time.Second,
			Reason: fmt.Sprintf("this node previews %d policies already; try again later", maxPreviews),
		}
	}
	x, err := b.Administration.PreviewPolicy(c.Context(), p, gone)
	if err != nil {
		return reply{}, err
	}
	things := make([]object, len(x.Things))
	for i := range x.Things {
		t := &x.Things[i]
		settings := make([]object, len(t.Settings))
		for j, s := range t.Settings {
			settings[j] = object{"argument": s.Arg, "before": orUnset(s.Before), "after": orUnset(s.After)}
		}
		things[i] = object{
			"kind": t.Kind, "name": t.Name, "matched": t.Matched, "outranked": t.Outranked, "before": orNull(t.Before), "after": orNull(t.After), "settings": settings,
		}
	}
	return reply{body: object{
		"looked": x.Looked, "total": x.Total, "matched": x.Matched, "outranked": x.Outranked, "changed": x.Changed, "things": things,
	}}, nil
}

// remove needs the same tag as put.
func (k policyKind) remove(c *call) (reply, error) {
	b := c.api.Broker
	if err := b.Permissions.RequirePolicies(c.Context(), c.vhost(), k.operator); err != nil {
		return reply{}, err
	}
	was, err := b.Administration.DeletePolicy(c.Context(), c.vhost(), c.name(), k.operator)
	if err != nil {
		return reply{}, err
	}
	return gone(was, k.kind(), c.vhost(), c.name())
}

// orUnset shows a value as text; null is a setting that is not set.
func orUnset(v message.Value) any {
	if v.IsNull() {
		return nil
	}
	return v.String()
}
