package client

import (
	"context"
	"iter"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Policy gives settings to the queues and exchanges whose name its pattern matches (PO-1).
type Policy struct {
	VHost      string `api:"vhost"` // "": "/"
	Name       string `api:"name"`
	Operator   bool   `api:"operator"`   // an operator policy, which bounds what users set
	Pattern    string `api:"pattern"`    // Perl-style regular expression, found anywhere in the name
	ApplyTo    string `api:"apply_to"`   // all (also if empty), queues, quorum_queues, classic_queues, exchanges
	Priority   int64  `api:"priority"`   // of the matching policies the one with the highest priority applies
	Definition Table  `api:"definition"` // such as max-length or dead-letter-exchange
	// PatternTimeouts is how often matching the pattern took too long on the answering node; the name
	// then counted as not matching. Only from Policies.
	PatternTimeouts uint64 `api:"pattern_timeouts"`
}

// PolicyRef names a policy of users or operators.
type PolicyRef struct {
	VHost    string `api:"vhost"` // "": "/"
	Name     string `api:"name"`
	Operator bool   `api:"operator"`
}

// PutPolicy creates a policy, or replaces the one of its name, and reports whether it is new.
func (c *Client) PutPolicy(ctx context.Context, p Policy) (isNew bool, err error) {
	type request struct {
		Policy Policy `api:"policy"`
	}
	out, err := ask[created](ctx, c, request{p}, policies, brokerv1.PoliciesClient.PutPolicy)
	return out.Yes, err
}

// DeletePolicy deletes a policy, and reports whether it existed.
func (c *Client) DeletePolicy(ctx context.Context, p PolicyRef) (existed bool, err error) {
	out, err := ask[deleted](ctx, c, p, policies, brokerv1.PoliciesClient.DeletePolicy)
	return out.Yes, err
}

// Policies lists the policies of a vhost, or of all vhosts if it is empty.
func (c *Client) Policies(ctx context.Context, vhost string) iter.Seq2[Policy, error] {
	type answer struct {
		Policies []Policy `api:"policies"`
	}
	return pages(func(string) ([]Policy, string, error) {
		out, err := ask[answer](ctx, c, inVHost{vhost}, policies, brokerv1.PoliciesClient.ListPolicies)
		return out.Policies, "", err
	})
}
