package administration

import (
	"cmp"
	"context"
	"time"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/names"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
)

// Policy gives settings to the queues and exchanges whose names match its pattern (PO-1).
type Policy struct {
	VHost, Name string
	Operator    bool   // limits what users set (PO-5)
	Pattern     string // Perl-style, found anywhere in the name
	ApplyTo     string // "" is "all"
	Priority    int64
	Definition  message.Table // by key
	// PatternTimeouts is how often a match took too long on this node (C-8). Only ListPolicies sets
	// it.
	PatternTimeouts uint64
}

// about returns an error that only names the policy. The names of operator policies are separate
// from those of other policies, so the kind differs too.
func (p *Policy) about() failure.Error {
	kind := "policy"
	if p.Operator {
		kind = "operator policy"
	}
	return failure.Error{VHost: p.VHost, Kind: kind, Name: p.Name}
}

// PutPolicy creates a policy or replaces the one with its name, and reports whether it is new. If
// the pattern or the definition is wrong, it returns all faults at once and stores nothing (PO-1).
// Each leader of a queue puts the policy in force as soon as it learns of it (PO-8).
func (ad *Administration) PutPolicy(ctx context.Context, p Policy) (created bool, err error) {
	cmd, err := p.command()
	if err != nil {
		return false, err
	}
	reply, err := ad.commands.Commit(ctx, cmd)
	return reply.Created, failure.Translate(err, p.about())
}

// command returns what puts the policy, if it can be put.
func (p *Policy) command() (*catalog.PutPolicy, error) {
	to := cmp.Or(p.ApplyTo, string(catalog.ApplyToAll))
	cmd := catalog.PutPolicy{Policy: catalog.Policy{
		VHost: p.VHost, Name: p.Name, Operator: p.Operator, Pattern: p.Pattern,
		ApplyTo: catalog.ApplyTo(to), Priority: p.Priority, Definition: p.Definition,
	}}
	return &cmd, CheckPolicy(&cmd.Policy, p.about())
}

// previewTime bounds a preview: patterns may be slow, and queues many.
const previewTime = 3 * time.Second

// PreviewPolicy returns what PutPolicy, or with gone DeletePolicy, would change for queues and exchanges, and changes
// nothing. Only callers who may see the whole vhost may call it (VH-12).
func (ad *Administration) PreviewPolicy(ctx context.Context, p Policy, gone bool) (policy.Preview, error) {
	if err := ad.permissions.WholeSight(ctx, p.VHost); err != nil {
		return policy.Preview{}, err
	}
	v, err := ad.serving.ViewOf(p.VHost)
	if err != nil {
		return policy.Preview{}, err
	}
	about := p.about()
	var cmd catalog.Command = &catalog.DeletePolicy{VHost: p.VHost, Name: p.Name, Operator: p.Operator}
	changed, exists := v.Policy(p.VHost, p.Name, p.Operator)
	switch {
	case gone && !exists:
		about.Class, about.Reason = failure.NotFound, "does not exist"
		return policy.Preview{}, &about
	case !gone:
		put, err := p.command()
		if err != nil {
			return policy.Preview{}, err
		}
		cmd, changed = put, &put.Policy
	}
	trial := catalog.From(v)
	if r := trial.Apply(v.Index(), v.Now(), cmd); r.Err != nil {
		return policy.Preview{}, failure.Translate(r.Err, about)
	}
	ctx, cancel := context.WithTimeout(ctx, previewTime)
	defer cancel()
	return ad.policies.Preview(v, trial.View(), changed, func() bool { return ctx.Err() != nil }), nil
}

// CheckPolicy makes those checks of a new policy that the catalog does not make.
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

// ListPolicies returns the policies of a vhost, or of all vhosts for "", sorted by vhost and name,
// with operator policies last in each vhost. Only callers who may see the whole vhost may call it
// (VH-12).
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
