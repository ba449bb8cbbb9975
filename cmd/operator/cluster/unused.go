package cluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/cmd/operator/chart"
)

// maxReplicas is the highest number of nodes that a specification may ask for.
const maxReplicas = 99

// unused deletes the objects that the specification has switched off, and the Certificates of nodes that are gone.
func (t *pass) unused(ctx context.Context) {
	wanted := map[string]bool{}
	for _, u := range t.objects.Others {
		wanted[u.GetKind()+"/"+u.GetName()] = true
	}
	for _, u := range chart.Optional(t.q, t.drawn) {
		if !wanted[u.GetKind()+"/"+u.GetName()] {
			t.note(u.GetKind(), false, t.drop(ctx, u))
		}
	}
	if t.q.Spec.TLS != nil && t.set != nil { // the StatefulSet has the number of nodes
		t.note(kindCertificate, false, t.formerCertificates(ctx, t.drawn))
	}
}

// formerCertificates deletes the Certificates of the nodes from an ordinal on. The highest goes first: if the operator is
// killed meanwhile, the rest is found again, because it still begins at that ordinal.
func (t *pass) formerCertificates(ctx context.Context, from int32) error {
	to := from
	for ; to < maxReplicas; to++ {
		is, err := t.owns(ctx, chart.PeerCertificate(t.q, to))
		if err != nil {
			return err
		}
		if !is {
			break
		}
	}
	for to--; to >= from; to-- {
		if err := t.drop(ctx, chart.PeerCertificate(t.q, to)); err != nil {
			return err
		}
	}
	return nil
}

// owns reports whether an object is there and is the cluster's, and reads it. Of a kind that Kubernetes does not know there
// is none.
func (t *pass) owns(ctx context.Context, o kube.Object) (bool, error) {
	switch err := t.Client.Get(ctx, kube.ObjectKeyFromObject(o), o); {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return false, nil
	case err != nil:
		return false, err
	}
	return metav1.IsControlledBy(o, t.q), nil
}

// remove deletes an object that the cluster does not have any more, if it is the cluster's.
func (t *pass) remove(ctx context.Context, o kube.Object, options ...kube.DeleteOption) error {
	is, err := t.owns(ctx, o)
	if err != nil || !is {
		return err
	}
	return kube.IgnoreNotFound(t.Client.Delete(ctx, o, options...))
}

// drop deletes an object that is switched off. What belongs to it stays: the Secret of a Certificate has the pairs that nodes
// use, and that a person may keep from now on.
func (t *pass) drop(ctx context.Context, u *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	kind, name := u.GetKind(), u.GetName()
	if err := t.remove(ctx, u, kube.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		return fmt.Errorf("cluster: delete %s %q, which is switched off: %w", kind, name, err)
	}
	return nil
}
