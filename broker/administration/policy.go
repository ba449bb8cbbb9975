package administration

import (
	"context"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/names"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
)

// Policy gives settings to the queues and exchanges whose name its pattern matches (PO-1).
type Policy struct {
	VHost, Name string
	Operator    bool   // bounds what users set (PO-5)
	Pattern     string // Perl-style, found anywhere in the name
	ApplyTo     string // "" is "all"
	Priority    int64
	Definition  message.Table // by key
	// PatternTimeouts is how often a match took too long on this node (C-8); of ListPolicies.
	PatternTimeouts uint64
}

// about names the policy in errors. Policies of operators have names of their own.
func (p *Policy) about() failure.Error {
	kind := "policy"
	if p.Operator {
		kind = "operator policy"
	}
	return failure.Error{VHost: p.VHost, Kind: kind, Name: p.Name}
}

// PutPolicy makes a policy, or replaces the one of its name, and reports whether it is new.
// Faults of pattern and definition are all returned at once; nothing is stored then (PO-1).
// The leaders of queues put it in force as they hear of it (PO-8).
func (ad *Administration) PutPolicy(ctx context.Context, p Policy) (created bool, err error) {
	if p.ApplyTo == "" {
		p.ApplyTo = string(catalog.ApplyToAll)
	}
	cmd := catalog.PutPolicy{Policy: catalog.Policy{
		VHost: p.VHost, Name: p.Name, Operator: p.Operator, Pattern: p.Pattern,
		ApplyTo: catalog.ApplyTo(p.ApplyTo), Priority: p.Priority, Definition: p.Definition,
	}}
	if err := CheckPolicy(&cmd.Policy, p.about()); err != nil {
		return false, err
	}
	reply, err := ad.commands.Commit(ctx, &cmd)
	return reply.Created, failure.Translate(err, p.about())
}

// CheckPolicy checks of a new policy what the catalog does not.
func CheckPolicy(p *catalog.Policy, about failure.Error) error {
	if err := names.CheckPlain(p.Name, "", about); err != nil {
		return err
	}
	if err := policy.Check(p); err != nil {
		return failure.FromArgument(err, about)
	}
	return nil
}

// DeletePolicy removes a policy and reports whether there was one.
func (ad *Administration) DeletePolicy(ctx context.Context, vhost, name string, operator bool) (deleted bool, err error) {
	p := Policy{VHost: vhost, Name: name, Operator: operator}
	reply, err := ad.commands.Commit(ctx, &catalog.DeletePolicy{VHost: vhost, Name: name, Operator: operator})
	return reply.Deleted, failure.Translate(err, p.about())
}

// ListPolicies returns the policies of a vhost, of all if it is "", by vhost and name; in
// each vhost those of operators last. It is for callers who see the whole vhost (VH-12).
func (ad *Administration) ListPolicies(ctx context.Context, vhost string) ([]Policy, error) {
	if err := ad.permissions.WholeSight(ctx, vhost); err != nil {
		return nil, err
	}
	v, err := ad.serving.ViewOf(vhost)
	if err != nil {
		return nil, err
	}
	var out []Policy
	for h := range v.VHosts() {
		if vhost != "" && h.Name != vhost {
			continue
		}
		for _, operator := range []bool{false, true} {
			for p := range v.Policies(h.Name, operator) {
				out = append(out, Policy{
					VHost: p.VHost, Name: p.Name, Operator: p.Operator, Pattern: p.Pattern,
					ApplyTo: string(p.ApplyTo), Priority: p.Priority, Definition: p.Definition,
					PatternTimeouts: ad.policies.Timeouts(v, p),
				})
			}
		}
	}
	return out, nil
}
