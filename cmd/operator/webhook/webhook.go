// Package webhook refuses objects whose specification has faults, or is more than their cluster allows to their namespace,
// when they are written: with the field, its value and the remedy, found by the broker's own code in package spec and by
// package scope. It helps the author and protects nothing: the controllers find the same faults and show them in a
// condition, so the API server may continue without it (failurePolicy: Ignore).
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
	"github.com/quorate/quorate/cmd/operator/scope"
	"github.com/quorate/quorate/cmd/operator/spec"
)

// Add adds the webhooks of all kinds that are in a cluster to the server of the manager.
func Add(m ctrl.Manager) error {
	c := m.GetClient()
	return errors.Join(
		add(m, &v1alpha1.QuorateQueue{}, queues(c)),
		add(m, &v1alpha1.QuorateExchange{}, exchanges(c)),
		add(m, &v1alpha1.QuorateBinding{}, bindings(c)),
		add(m, &v1alpha1.QuoratePolicy{}, policies(c)),
		add(m, &v1alpha1.QuorateUser{}, users(c)),
		add(m, &v1alpha1.QuoratePermission{}, permissions(c)),
	)
}

func add[T object](m ctrl.Manager, o T, v Validator[T]) error {
	if err := ctrl.NewWebhookManagedBy(m, o).WithValidator(v).Complete(); err != nil {
		return fmt.Errorf("webhook of kind %s: %w", v.kind, err)
	}
	return nil
}

// object is what all kinds of objects have.
type object interface {
	kube.Object
	InCluster() v1alpha1.ClusterReference
}

// Validator checks the objects of one kind. It has no state, and may be used concurrently.
type Validator[T object] struct {
	kind string
	// clusters finds the QuorateCluster of an object.
	clusters kube.Reader
	// read returns what an object needs to be allowed, and the faults of its specification.
	read func(T) (scope.Demand, field.ErrorList)
	warn func(T) []string
	// spec returns the specification, changed warns about a change of one that was carried out.
	spec    func(T) any
	changed func(was, is T) []string
}

// ValidateCreate implements admission.Validator.
func (v Validator[T]) ValidateCreate(ctx context.Context, o T) (admission.Warnings, error) {
	demand, faults := v.read(o)
	outside, unsure := v.scope(ctx, o, demand)
	return append(v.warn(o), unsure...), v.refuse(o, append(faults, outside...))
}

// ValidateUpdate implements admission.Validator. It lets pass what does not change the specification, and all changes of
// an object that is being deleted: a finalizer must go even from an object that could not be made today. Likewise it checks
// the scope only of what is demanded anew: an object of an entry that was narrowed must still become Retain, for one.
func (v Validator[T]) ValidateUpdate(ctx context.Context, was, is T) (admission.Warnings, error) {
	if !is.GetDeletionTimestamp().IsZero() || equality.Semantic.DeepEqual(v.spec(was), v.spec(is)) {
		return nil, nil
	}
	demand, faults := v.read(is)
	before, _ := v.read(was)
	var unsure []string
	if was.InCluster() != is.InCluster() || !equality.Semantic.DeepEqual(before, demand) {
		var outside field.ErrorList
		outside, unsure = v.scope(ctx, is, demand)
		faults = append(faults, outside...)
	}
	return append(append(v.warn(is), v.changed(was, is)...), unsure...), v.refuse(is, faults)
}

// ValidateDelete implements admission.Validator; what a deletion may do, the controllers see to.
func (v Validator[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) { return nil, nil }

// scope returns what the cluster does not allow of a demand, and warnings of what could not be checked.
func (v Validator[T]) scope(ctx context.Context, o T, demand scope.Demand) (outside field.ErrorList, unsure []string) {
	var c v1alpha1.QuorateCluster
	switch err := v.clusters.Get(ctx, spec.ClusterOf(o.InCluster(), o.GetNamespace()), &c); {
	case err == nil:
		outside = scope.Faults(scope.Check(&c, o.GetNamespace(), demand))
	case !apierrors.IsNotFound(err): // a cluster may come after its objects
		unsure = []string{"spec.cluster: it could not be checked what the QuorateCluster allows: " + err.Error()}
	}
	return outside, unsure
}

// refuse returns all faults as the API server returns those that it finds itself.
func (v Validator[T]) refuse(o T, faults field.ErrorList) error {
	if len(faults) == 0 {
		return nil
	}
	return apierrors.NewInvalid(v1alpha1.GroupVersion().WithKind(v.kind).GroupKind(), o.GetName(), faults)
}

// only is for kinds with nothing but faults. read is of package spec.
func only[T object, S interface{ Demand() scope.Demand }](
	kind string, clusters kube.Reader, specification func(T) any, read func(T) (S, field.ErrorList),
) Validator[T] {
	return Validator[T]{
		kind: kind, clusters: clusters, spec: specification,
		read: func(o T) (scope.Demand, field.ErrorList) {
			x, faults := read(o)
			return x.Demand(), faults
		},
		warn: func(T) []string { return nil }, changed: func(_, _ T) []string { return nil },
	}
}

func queues(c kube.Reader) Validator[*v1alpha1.QuorateQueue] {
	v := only("QuorateQueue", c, func(q *v1alpha1.QuorateQueue) any { return q.Spec }, spec.ReadQueue)
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

func exchanges(c kube.Reader) Validator[*v1alpha1.QuorateExchange] {
	v := only("QuorateExchange", c, func(x *v1alpha1.QuorateExchange) any { return x.Spec }, spec.ReadExchange)
	v.warn, v.changed = spec.WarnExchange, func(was, is *v1alpha1.QuorateExchange) []string {
		if equality.Semantic.DeepEqual(was.Spec.Arguments, is.Spec.Arguments) {
			return nil
		}
		return []string{"spec.arguments: the broker does not change an exchange that exists; the condition Drifted will say what differs"}
	}
	return v
}

func bindings(c kube.Reader) Validator[*v1alpha1.QuorateBinding] {
	v := only("QuorateBinding", c, func(b *v1alpha1.QuorateBinding) any { return b.Spec }, spec.ReadBinding)
	v.warn = spec.WarnBinding
	return v
}

func policies(c kube.Reader) Validator[*v1alpha1.QuoratePolicy] {
	return only("QuoratePolicy", c, func(p *v1alpha1.QuoratePolicy) any { return p.Spec }, spec.ReadPolicy)
}

func users(c kube.Reader) Validator[*v1alpha1.QuorateUser] {
	return only("QuorateUser", c, func(u *v1alpha1.QuorateUser) any { return u.Spec }, spec.ReadUser)
}

func permissions(c kube.Reader) Validator[*v1alpha1.QuoratePermission] {
	return only("QuoratePermission", c, func(p *v1alpha1.QuoratePermission) any { return p.Spec }, spec.ReadPermission)
}
