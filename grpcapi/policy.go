package grpcapi

import (
	"context"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/administration"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// policyServer serves Policies over the broker; it keeps no state.
type policyServer struct {
	brokerv1.UnimplementedPoliciesServer
	b *broker.Broker
}

// PutPolicy makes or replaces a policy.
func (s *policyServer) PutPolicy(ctx context.Context, req *brokerv1.PutPolicyRequest) (*brokerv1.PutPolicyResponse, error) {
	p := req.GetPolicy()
	definition, err := fromTable("definition", p.GetDefinition())
	if err != nil {
		return nil, err
	}
	created, err := s.b.Administration.PutPolicy(ctx, administration.Policy{
		VHost: vhostOf(p.GetVhost()), Name: p.GetName(), Operator: p.GetOperator(), Pattern: p.GetPattern(),
		ApplyTo: p.GetApplyTo(), Priority: p.GetPriority(), Definition: definition,
	})
	if err != nil {
		return nil, err
	}
	return &brokerv1.PutPolicyResponse{Created: created}, nil
}

// DeletePolicy removes a policy.
func (s *policyServer) DeletePolicy(ctx context.Context, req *brokerv1.DeletePolicyRequest) (*brokerv1.DeletePolicyResponse, error) {
	deleted, err := s.b.Administration.DeletePolicy(ctx, vhostOf(req.GetVhost()), req.GetName(), req.GetOperator())
	if err != nil {
		return nil, err
	}
	return &brokerv1.DeletePolicyResponse{Deleted: deleted}, nil
}

// ListPolicies lists policies by vhost and name.
func (s *policyServer) ListPolicies(ctx context.Context, req *brokerv1.ListPoliciesRequest) (*brokerv1.ListPoliciesResponse, error) {
	list, err := s.b.Administration.ListPolicies(ctx, req.GetVhost())
	if err != nil {
		return nil, err
	}
	out := &brokerv1.ListPoliciesResponse{Policies: make([]*brokerv1.Policy, len(list))}
	for i := range list {
		p := &list[i]
		out.Policies[i] = &brokerv1.Policy{
			Vhost: p.VHost, Name: p.Name, Operator: p.Operator, Pattern: p.Pattern,
			ApplyTo: p.ApplyTo, Priority: p.Priority, Definition: toTable(p.Definition), PatternTimeouts: p.PatternTimeouts,
		}
	}
	return out, nil
}
