package topology

import (
	"context"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/inventory"
	"github.com/quorate/quorate/cmd/operator/spec"
	"github.com/quorate/quorate/cmd/operator/table"
)

func readPolicy(o *v1alpha1.QuoratePolicy) (subject, field.ErrorList) {
	p, faults := spec.ReadPolicy(o)
	return policy{p}, faults
}

func removalOfPolicy(o *v1alpha1.QuoratePolicy) removal { return removalOf(o.Spec.Deletion) }

// policy is the subject of a QuoratePolicy.
type policy struct{ spec.Policy }

func (p policy) name() inventory.PolicyName {
	return inventory.PolicyName{VHost: p.VHost, Name: p.Name, Operator: p.Operator}
}

func (p policy) identity() string {
	return p.VHost + "\x00" + p.Name + "\x00" + strconv.FormatBool(p.Operator)
}

func (p policy) words() string {
	kind := "policy"
	if p.Operator {
		kind = "operator policy"
	}
	return fmt.Sprintf("%s %q in vhost %q", kind, p.Name, p.VHost)
}

func (p policy) compare(ctx context.Context, s *session) (bool, []table.Difference, error) {
	found, ok, err := s.inventory.Policy(ctx, p.name(), s.maxAge.duration())
	if err != nil || !ok {
		return false, nil, err
	}
	return true, p.differences(found), nil
}

func (p policy) differences(found inventory.Policy) []table.Difference {
	out := table.CompareText(nil, "pattern", p.Pattern, found.Pattern)
	out = table.CompareText(out, "applyTo", p.ApplyTo, found.ApplyTo)
	if p.Priority != found.Priority {
		out = append(out, table.Difference{
			Field: "priority", Wanted: strconv.FormatInt(p.Priority, 10), Found: strconv.FormatInt(found.Priority, 10),
		})
	}
	return append(out, table.Compare("definition", p.Definition, found.Definition, table.Everything)...)
}

func (p policy) apply(ctx context.Context, s *session) (created bool, err error) {
	err = s.call(ctx, func(ctx context.Context, c *client.Client) error {
		created, err = c.PutPolicy(ctx, client.Policy{
			VHost: p.VHost, Name: p.Name, Operator: p.Operator, Pattern: p.Pattern, ApplyTo: p.ApplyTo,
			Priority: p.Priority, Definition: table.ToClient(p.Definition),
		})
		return err
	})
	if err == nil {
		s.inventory.PutPolicy(ctx, p.name(), inventory.Policy{
			Pattern: p.Pattern, ApplyTo: p.ApplyTo, Priority: p.Priority, Definition: p.Definition,
		})
	}
	return created, err
}

func (p policy) remove(ctx context.Context, s *session, _ removal) error {
	err := s.call(ctx, func(ctx context.Context, c *client.Client) error {
		_, err := c.DeletePolicy(ctx, client.PolicyRef{VHost: p.VHost, Name: p.Name, Operator: p.Operator})
		return gone(err)
	})
	if err == nil {
		s.inventory.DropPolicy(ctx, p.name())
	}
	return err
}
