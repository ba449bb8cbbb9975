// Package webhook refuses objects whose specification has faults, when they are written: with the field, its value
// and the remedy, found by the broker's own code in package spec. It is a help to whoever writes them and protects
// nothing: the controllers find the same faults and show them in a condition, so the API server may go on without
// it (failurePolicy: Ignore).
package webhook

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/spec"
)

// Add adds the webhooks of all kinds that are in a cluster to the server of the manager.
func Add(m ctrl.Manager) error {
	return errors.Join(
		add(m, &v1alpha1.QuorateQueue{}, queues()),
		add(m, &v1alpha1.QuorateExchange{}, exchanges()),
		add(m, &v1alpha1.QuorateBinding{}, bindings()),
		add(m, &v1alpha1.QuoratePolicy{}, policies()),
		add(m, &v1alpha1.QuorateUser{}, users()),
		add(m, &v1alpha1.QuoratePermission{}, permissions()),
	)
}

func add[T kube.Object](m ctrl.Manager, object T, v Validator[T]) error {
	if err := ctrl.NewWebhookManagedBy(m, object).WithValidator(v).Complete(); err != nil {
		return fmt.Errorf("webhook of kind %s: %w", v.kind, err)
	}
	return nil
}

// Validator checks the objects of one kind. It has no state, and may be used concurrently.
type Validator[T kube.Object] struct {
	kind  string
	check func(T) field.ErrorList
	warn  func(T) []string
	// spec returns the specification, changed warns about a change of one that was carried out.
	spec    func(T) any
	changed func(was, is T) []string
}

// ValidateCreate implements admission.Validator.
func (v Validator[T]) ValidateCreate(_ context.Context, o T) (admission.Warnings, error) {
	return v.warn(o), v.refuse(o)
}

// ValidateUpdate implements admission.Validator. It lets pass what does not change the specification, and all changes of
// an object that is being deleted: a finalizer must go even from an object that could not be made today.
func (v Validator[T]) ValidateUpdate(_ context.Context, was, is T) (admission.Warnings, error) {
	if !is.GetDeletionTimestamp().IsZero() || equality.Semantic.DeepEqual(v.spec(was), v.spec(is)) {
		return nil, nil
	}
	return append(v.warn(is), v.changed(was, is)...), v.refuse(is)
}

// ValidateDelete implements admission.Validator; what a deletion may do, the controllers see to.
func (v Validator[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) { return nil, nil }

// refuse returns all faults as the API server returns those that it finds itself.
func (v Validator[T]) refuse(o T) error {
	faults := v.check(o)
	if len(faults) == 0 {
		return nil
	}
	return apierrors.NewInvalid(v1alpha1.GroupVersion().WithKind(v.kind).GroupKind(), o.GetName(), faults)
}

// only is for kinds with nothing but faults.
func only[T kube.Object](kind string, specification func(T) any, check func(T) field.ErrorList) Validator[T] {
	return Validator[T]{
		kind: kind, check: check, spec: specification,
		warn: func(T) []string { return nil }, changed: func(_, _ T) []string { return nil },
	}
}

func queues() Validator[*v1alpha1.QuorateQueue] {
	v := only("QuorateQueue", func(q *v1alpha1.QuorateQueue) any { return q.Spec }, func(q *v1alpha1.QuorateQueue) field.ErrorList {
		_, faults := spec.ReadQueue(q)
		return faults
	})
	v.warn, v.changed = spec.WarnQueue, queueChanged
	return v
}

// queueChanged warns that a change of what the broker compares does not reach a queue that exists.
func queueChanged(was, is *v1alpha1.QuorateQueue) []string {
	if equality.Semantic.DeepEqual(was.Spec.Arguments, is.Spec.Arguments) && was.Spec.AutoDelete == is.Spec.AutoDelete {
		return nil
	}
	return []string{
		"spec: the broker does not change a queue that exists; the condition Drifted will say what differs. Limits and dead-lettering can be changed by a QuoratePolicy",
	}
}

func exchanges() Validator[*v1alpha1.QuorateExchange] {
	v := only("QuorateExchange", func(x *v1alpha1.QuorateExchange) any { return x.Spec }, func(x *v1alpha1.QuorateExchange) field.ErrorList {
		_, faults := spec.ReadExchange(x)
		return faults
	})
	v.warn, v.changed = spec.WarnExchange, func(was, is *v1alpha1.QuorateExchange) []string {
		if equality.Semantic.DeepEqual(was.Spec.Arguments, is.Spec.Arguments) {
			return nil
		}
		return []string{"spec.arguments: the broker does not change an exchange that exists; the condition Drifted will say what differs"}
	}
	return v
}

func bindings() Validator[*v1alpha1.QuorateBinding] {
	v := only("QuorateBinding", func(b *v1alpha1.QuorateBinding) any { return b.Spec }, func(b *v1alpha1.QuorateBinding) field.ErrorList {
		_, faults := spec.ReadBinding(b)
		return faults
	})
	v.warn = spec.WarnBinding
	return v
}

func policies() Validator[*v1alpha1.QuoratePolicy] {
	return only("QuoratePolicy", func(p *v1alpha1.QuoratePolicy) any { return p.Spec }, func(p *v1alpha1.QuoratePolicy) field.ErrorList {
		_, faults := spec.ReadPolicy(p)
		return faults
	})
}

func users() Validator[*v1alpha1.QuorateUser] {
	return only("QuorateUser", func(u *v1alpha1.QuorateUser) any { return u.Spec }, func(u *v1alpha1.QuorateUser) field.ErrorList {
		_, faults := spec.ReadUser(u)
		return faults
	})
}

func permissions() Validator[*v1alpha1.QuoratePermission] {
	return only("QuoratePermission", func(p *v1alpha1.QuoratePermission) any { return p.Spec }, func(p *v1alpha1.QuoratePermission) field.ErrorList {
		_, faults := spec.ReadPermission(p)
		return faults
	})
}
