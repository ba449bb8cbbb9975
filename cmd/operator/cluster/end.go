package cluster

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/broker"
	"github.com/quorate/quorate/cmd/operator/chart"
)

// end takes care of what the garbage collector of Kubernetes leaves: volume claims and secrets have no owner. They
// stay, unless the specification asks for their deletion. Everything else is deleted because the object owns it.
func (r *Reconciler) end(ctx context.Context, q *v1alpha1.QuorateCluster) error {
	if !controllerutil.ContainsFinalizer(q, finalizer) {
		return nil
	}
	if q.Spec.Deletion == v1alpha1.VolumeDeletionDelete {
		if err := r.deleteData(ctx, q); err != nil {
			return err
		}
	}
	r.Pool.Forget(kube.ObjectKeyFromObject(q))
	return kube.IgnoreNotFound(hold(ctx, r.Client, q, controllerutil.RemoveFinalizer))
}

// deleteClaims deletes the claims, which Kubernetes keeps until no pod uses them. While there is a StatefulSet of somebody
// else, such as a release of Helm of the same name, they are its claims: labels and names are the same.
func (r *Reconciler) deleteClaims(ctx context.Context, q *v1alpha1.QuorateCluster) error {
	var set appsv1.StatefulSet
	switch err := r.Client.Get(ctx, kube.ObjectKeyFromObject(q), &set); {
	case kube.IgnoreNotFound(err) != nil:
		return err
	case err == nil && !ours(q, &set):
		r.Events.Eventf(q, nil, corev1.EventTypeWarning, "ClaimsKept", "Delete",
			"the volume claims stay, whatever spec.deletion says: there is a StatefulSet %q that this cluster has not made, and they may be its own", set.Name)
		return nil
	}
	var claims corev1.PersistentVolumeClaimList
	if err := r.Client.List(ctx, &claims, kube.InNamespace(q.Namespace), kube.MatchingLabels(broker.Labels(q))); err != nil {
		return err
	}
	for i := range claims.Items {
		if _, is := ordinal(claims.Items[i].Name, "data-"+q.Name); !is {
			continue
		}
		if err := kube.IgnoreNotFound(r.Client.Delete(ctx, &claims.Items[i])); err != nil {
			return err
		}
	}
	return nil
}

// deleteData deletes the claims, and the Secrets that the operator has made for this cluster. One that the specification names
// may have been made for another.
func (r *Reconciler) deleteData(ctx context.Context, q *v1alpha1.QuorateCluster) error {
	if err := r.deleteClaims(ctx, q); err != nil {
		return err
	}
	made := q.DeepCopy()
	made.Spec.Secrets = v1alpha1.SecretsSpec{}
	for _, name := range []string{chart.GossipSecret(made), broker.AdministratorSecret(made)} {
		var s corev1.Secret
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: q.Namespace, Name: name}, &s)
		if apierrors.IsNotFound(err) || err == nil && (s.Annotations[madeBy] == "" || s.Labels[instanceLabel] != q.Name) {
			continue
		}
		if err != nil {
			return err
		}
		if err := kube.IgnoreNotFound(r.Client.Delete(ctx, &s)); err != nil {
			return err
		}
	}
	return nil
}
