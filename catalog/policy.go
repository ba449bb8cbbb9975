package catalog

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/quorate/quorate/message"
)

// ApplyTo is what a policy applies to (PO-1).
type ApplyTo string

// The values of ApplyTo.
const (
	ApplyToAll           ApplyTo = "all"
	ApplyToQueues        ApplyTo = "queues"
	ApplyToQuorumQueues  ApplyTo = "quorum_queues"
	ApplyToClassicQueues ApplyTo = "classic_queues"
	ApplyToExchanges     ApplyTo = "exchanges"
)

// Policy gives settings to the queues and exchanges whose name its pattern matches. Operator
// policies bound user policies (PO-5, PO-6).
type Policy struct {
	VHost, Name string
	Operator    bool
	Pattern     string
	ApplyTo     ApplyTo
	Priority    int64         // of the matching policies the one with the highest priority applies (PO-3)
	Definition  message.Table // by key
}

// PutPolicy creates a policy, or replaces the one of its name. The proposer checks pattern and
// definition (PO-1, PO-2).
type PutPolicy struct {
	Policy
	OnlyNew bool // refuse to change one that exists
}

// DeletePolicy removes a policy. A missing one is fine.
type DeletePolicy struct {
	VHost, Name string
	Operator    bool
}

// Parameter is a JSON value that belongs to a component, kept for importing and exporting
// definitions (VH-9). Without a vhost it is global.
type Parameter struct{ VHost, Component, Name, Value string }

func (p *Parameter) identity() string { return parameterIdentity(p.VHost, p.Component, p.Name) }

func parameterIdentity(vhost, component, name string) string {
	return keyPart(vhost) + keyPart(component) + keyPart(name)
}

// PutParameter sets a parameter.
type PutParameter struct {
	Parameter
	OnlyNew bool // refuse to change one that exists
}

// DeleteParameter removes a parameter. A missing one is fine.
type DeleteParameter struct{ VHost, Component, Name string }

func (*PutPolicy) kind() commandKind       { return kindPutPolicy }
func (*DeletePolicy) kind() commandKind    { return kindDeletePolicy }
func (*PutParameter) kind() commandKind    { return kindPutParameter }
func (*DeleteParameter) kind() commandKind { return kindDeleteParameter }

func (c *PutPolicy) append(b []byte) []byte { return appendBool(appendPolicy(b, &c.Policy), c.OnlyNew) }

func (c *DeletePolicy) append(b []byte) []byte {
	return appendBool(appendString(appendString(b, c.VHost), c.Name), c.Operator)
}

func (c *PutParameter) append(b []byte) []byte {
	return appendBool(appendParameter(b, &c.Parameter), c.OnlyNew)
}

func (c *DeleteParameter) append(b []byte) []byte {
	return appendString(appendString(appendString(b, c.VHost), c.Component), c.Name)
}

// putPolicy makes or replaces a policy; those of users and of operators are kept apart, with names
// of their own.
func (v *View) putPolicy(c *PutPolicy) (Reply, *Error) {
	h, ok := v.vhosts.get(c.VHost)
	if !ok {
		return Reply{}, noVHost(c.VHost)
	}
	e := c.about()
	if err := c.check(e); err != nil {
		return Reply{}, err
	}
	p := c.Policy
	of := h.policiesOf(c.Operator)
	old, exists := of.get(c.Name)
	if exists && c.OnlyNew {
		return Reply{}, e.onlyNew(p.equal(old))
	}
	*of = of.set(c.Name, &p)
	v.vhosts = v.vhosts.set(c.VHost, h)
	return Reply{Created: !exists}, nil
}

// about begins an error about the policy, worded by which kind it is.
func (p *Policy) about() Error {
	e := Error{Code: CodePreconditionFailed, Kind: "policy", Name: p.Name, VHost: p.VHost}
	if p.Operator {
		e.Kind = "operator policy"
	}
	return e
}

func (p *Policy) equal(o *Policy) bool {
	return p.Pattern == o.Pattern && p.ApplyTo == o.ApplyTo && p.Priority == o.Priority &&
		p.Definition.EqualClass(o.Definition)
}

// check bounds what is stored. Whether the pattern compiles and the keys mean something was checked
// by the proposer (PO-1, PO-2): a build with other rules must not decide differently when it
// applies the same entry.
func (p *Policy) check(e Error) *Error {
	switch p.ApplyTo {
	case ApplyToAll, ApplyToQueues, ApplyToQuorumQueues, ApplyToClassicQueues, ApplyToExchanges:
	default:
		e.Arg, e.Value = "apply-to", strconv.Quote(string(p.ApplyTo))
		e.Reason = "want all, queues, quorum_queues, classic_queues or exchanges"
		return &e
	}
	switch {
	case p.Name == "":
		e.Arg, e.Reason = "name", "is empty"
		return &e
	case !e.nameFits(p.Name):
		return &e
	case len(p.Definition) == 0:
		e.Arg, e.Reason = "definition", "is empty; give at least one key"
		return &e
	}
	if err := e.patternsFit(p.Pattern); err != nil {
		return err
	}
	return checkArguments(e, p.Definition)
}

// policiesOf returns a pointer to the policies of users, or of operators.
func (h *vhost) policiesOf(operator bool) *tree[string, *Policy] {
	if operator {
		return &h.operatorPolicies
	}
	return &h.policies
}

// deletePolicy removes a policy of its kind.
func (v *View) deletePolicy(c *DeletePolicy) (Reply, *Error) {
	h, ok := v.vhosts.get(c.VHost)
	if !ok {
		return Reply{}, noVHost(c.VHost)
	}
	of := h.policiesOf(c.Operator)
	if _, exists := of.get(c.Name); !exists {
		return Reply{}, nil
	}
	*of = of.without(c.Name)
	v.vhosts = v.vhosts.set(c.VHost, h)
	return Reply{Deleted: true}, nil
}

// putParameter sets a parameter of a vhost, or a global one where VHost is "".
func (v *View) putParameter(c *PutParameter) (Reply, *Error) {
	e := Error{Code: CodePreconditionFailed, Kind: "parameter", Name: c.Name, VHost: c.VHost}
	if _, ok := v.vhosts.get(c.VHost); !ok && c.VHost != "" {
		return Reply{}, noVHost(c.VHost)
	}
	switch {
	case !e.nameFits(c.Name) || !e.nameFits(c.Component):
		return Reply{}, &e
	case len(c.Value) > MaxParameterBytes:
		e.Arg, e.Reason = "value", fmt.Sprintf("%d bytes, the limit is %d", len(c.Value), MaxParameterBytes)
		return Reply{}, &e
	}
	p := c.Parameter
	old, exists := v.parameters.get(p.identity())
	if exists && c.OnlyNew {
		return Reply{}, e.onlyNew(p == *old)
	}
	v.parameters = v.parameters.set(p.identity(), &p)
	return Reply{Created: !exists}, nil
}

// deleteParameter removes a parameter; its vhost need not exist.
func (v *View) deleteParameter(c *DeleteParameter) (Reply, *Error) {
	ident := parameterIdentity(c.VHost, c.Component, c.Name)
	if _, exists := v.parameters.get(ident); !exists {
		return Reply{}, nil
	}
	v.parameters = v.parameters.without(ident)
	return Reply{Deleted: true}, nil
}

// parametersOf returns the parameters of a vhost, or the global ones.
func (v *View) parametersOf(vhost string) (found []*Parameter) {
	v.parameters.from(keyPart(vhost), func(_ string, p *Parameter) bool {
		if p.VHost != vhost {
			return false
		}
		found = append(found, p)
		return true
	})
	return found
}

// appendPolicy writes a policy, in commands and snapshots alike.
func appendPolicy(b []byte, p *Policy) []byte {
	b = appendBool(appendString(appendString(b, p.VHost), p.Name), p.Operator)
	b = appendString(appendString(b, p.Pattern), p.ApplyTo)
	return appendTable(binary.AppendVarint(b, p.Priority), p.Definition)
}

// appendParameter writes a parameter, in commands and snapshots alike.
func appendParameter(b []byte, p *Parameter) []byte {
	for _, s := range [...]string{p.VHost, p.Component, p.Name, p.Value} {
		b = appendString(b, s)
	}
	return b
}

// policy reads what appendPolicy wrote.
func (r *reader) policy() Policy {
	return Policy{
		VHost: r.string("vhost"), Name: r.string("policy"), Operator: r.bool("operator"),
		Pattern: r.string("pattern"), ApplyTo: ApplyTo(r.string("apply-to")),
		Priority: r.varint("priority"), Definition: r.table("definition"),
	}
}

// parameter reads what appendParameter wrote.
func (r *reader) parameter() Parameter {
	return Parameter{
		VHost: r.string("vhost"), Component: r.string("component"), Name: r.string("parameter"), Value: r.string("value"),
	}
}
