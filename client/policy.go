package client

import (
	"context"
	"iter"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Policy gives settings to the queues and exchanges whose name its pattern matches (PO-1).
type Policy struct {
	Vhost      string // "": "/"
	Name       string
	Operator   bool   // bounds what users set
	Pattern    string // Perl-style regular expression, found anywhere in the name
	ApplyTo    string // all (also if empty), queues, quorum_queues, classic_queues, exchanges
	Priority   int64  // the highest one counts
	Definition Table  // such as max-length or dead-letter-exchange
}

// PutPolicy makes a policy, or replaces the one of its name, and tells whether it is new.
func (c *Client) PutPolicy(ctx context.Context, p Policy) (created bool, err error) {
	definition, err := p.Definition.proto()
	if err != nil {
		return false, err
	}
	r := &brokerv1.PutPolicyRequest{Policy: &brokerv1.Policy{
		Vhost: p.Vhost, Name: p.Name, Operator: p.Operator, Pattern: p.Pattern,
		ApplyTo: p.ApplyTo, Priority: p.Priority, Definition: definition,
	}}
	out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.PutPolicyRequest) (*brokerv1.PutPolicyResponse, error) {
		return n.policies.PutPolicy(ctx, r)
	})
	return out.GetCreated(), err
}

// DeletePolicy removes a policy, or an operator's one, and tells whether there was one.
func (c *Client) DeletePolicy(ctx context.Context, vhost, name string, operator bool) (deleted bool, err error) {
	r := &brokerv1.DeletePolicyRequest{Vhost: vhost, Name: name, Operator: operator}
	out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.DeletePolicyRequest) (*brokerv1.DeletePolicyResponse, error) {
		return n.policies.DeletePolicy(ctx, r)
	})
	return out.GetDeleted(), err
}

// Policies lists the policies of a vhost, or of all vhosts if it is empty.
func (c *Client) Policies(ctx context.Context, vhost string) iter.Seq2[*brokerv1.Policy, error] {
	return pages(func(string) ([]*brokerv1.Policy, string, error) {
		r := &brokerv1.ListPoliciesRequest{Vhost: vhost}
		out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.ListPoliciesRequest) (*brokerv1.ListPoliciesResponse, error) {
			return n.policies.ListPolicies(ctx, r)
		})
		return out.GetPolicies(), "", err
	})
}
