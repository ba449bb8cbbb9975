package topology

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/inventory"
	"github.com/quorate/quorate/cmd/operator/spec"
	"github.com/quorate/quorate/cmd/operator/table"
)

func readBinding(o *v1alpha1.QuorateBinding) (subject, field.ErrorList) {
	b, faults := spec.ReadBinding(o)
	return binding{b}, faults
}

func removalOfBinding(o *v1alpha1.QuorateBinding) removal { return removalOf(o.Spec.Deletion) }

// binding is the subject of a QuorateBinding.
type binding struct{ spec.Binding }

// name is the whole binding: it has no other.
func (b binding) name() inventory.Binding {
	return inventory.Binding{
		VHost: b.VHost, Source: b.Source, Destination: b.Destination, ToExchange: b.ToExchange,
		RoutingKey: b.RoutingKey, Arguments: table.Key(b.Arguments),
	}
}

func (b binding) identity() string {
	return strings.Join([]string{b.VHost, b.Source, strconv.FormatBool(b.ToExchange), b.Destination, b.RoutingKey, table.Key(b.Arguments)}, "\x00")
}

func (b binding) words() string {
	return fmt.Sprintf("binding %q → %q with key %q in vhost %q", b.Source, b.Destination, b.RoutingKey, b.VHost)
}

func (b binding) compare(ctx context.Context, s *session) (bool, []table.Difference, error) {
	found, err := s.inventory.HasBinding(ctx, b.name(), s.maxAge.duration())
	return found, nil, err
}

// apply binds. If the arguments have changed, the former binding goes once the new one is there, so that no message
// goes astray in between. What was bound is recorded in the status, because only that shows which one to remove.
func (b binding) apply(ctx context.Context, s *session) (created bool, err error) {
	o := as[*v1alpha1.QuorateBinding](s.object)
	status := &o.Status
	status.Arguments = recorded(status) // it stays if a call fails, after which the condition no longer shows it
	err = s.call(ctx, func(ctx context.Context, c *client.Client) error { return c.Bind(ctx, b.request()) })
	if err != nil {
		return false, err
	}
	s.inventory.PutBinding(ctx, b.name())
	if former := b.former(status); former != nil {
		if err := former.unbind(ctx, s); err != nil {
			return false, err
		}
	}
	if status.Arguments = o.Spec.Arguments.DeepCopy(); status.Arguments == nil {
		status.Arguments = noArguments()
	}
	return false, nil
}

// noArguments records a binding without arguments; nothing recorded means that nothing was bound.
func noArguments() *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte("{}")} }

// recorded returns the arguments of the binding that the broker has by the status; nil: it has none. Operators before recorded
// those of a binding without arguments as nil, and its condition shows that it was bound.
func recorded(status *v1alpha1.QuorateBindingStatus) *apiextensionsv1.JSON {
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	if status.Arguments == nil && c != nil && c.Reason == reasonInBroker {
		return noArguments()
	}
	return status.Arguments
}

// former returns the binding that the status records if it is another one.
func (b binding) former(status *v1alpha1.QuorateBindingStatus) *binding {
	arguments := recorded(status)
	if arguments == nil {
		return nil
	}
	former := binding{b.WithArguments(arguments.Raw)}
	if former.name() == b.name() {
		return nil
	}
	return &former
}

func (b binding) request() client.Binding {
	return client.Binding{
		VHost: b.VHost, Source: b.Source, Destination: b.Destination, ToExchange: b.ToExchange,
		RoutingKey: b.RoutingKey, Arguments: table.ToClient(b.Arguments),
	}
}

// remove also removes the former binding of a change that was not completed.
func (b binding) remove(ctx context.Context, s *session, _ removal) error {
	if former := b.former(&as[*v1alpha1.QuorateBinding](s.object).Status); former != nil {
		if err := former.unbind(ctx, s); err != nil {
			return err
		}
	}
	return b.unbind(ctx, s)
}

func (b binding) unbind(ctx context.Context, s *session) error {
	err := s.call(ctx, func(ctx context.Context, c *client.Client) error { return gone(c.Unbind(ctx, b.request())) })
	if err == nil {
		s.inventory.DropBinding(ctx, b.name())
	}
	return err
}
