package topology

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/scope"
)

// delete deals with what an object stands for, and then lets the object go. It needs nothing from before: a delete that
// was interrupted begins again, and what is gone already is no error.
func (r *reconciler) delete(ctx context.Context, o object) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(o, Finalizer) {
		return ctrl.Result{}, nil
	}
	x, faults := r.kind.read(o)
	how := r.kind.removal(o)
	switch {
	case how == keep:
		return r.release(ctx, o, "")
	case len(faults) > 0:
		return r.release(ctx, o, "nothing was deleted in the broker: what the object says is not valid")
	}
	c, v := r.cluster(ctx, o)
	switch {
	case c == nil && v.reason == reasonFailed:
		return ctrl.Result{}, errors.New(v.message)
	case c == nil: // the cluster is gone
		return r.release(ctx, o, "nothing was deleted in the broker: "+v.message)
	}
	if refused := scope.Check(c, o.GetNamespace(), removalDemand(o, x)); len(refused) > 0 {
		return r.release(ctx, o, "nothing was deleted in the broker: "+scope.Text(refused))
	}
	others, err := r.namesakes(ctx, o, x, c)
	if err != nil {
		return ctrl.Result{}, err
	}
	if heir := heirOf(o, others); heir != nil {
		return r.release(ctx, o, "the "+x.words()+" stays: it is "+nameOf(r.kind, heir)+"'s too")
	}
	s := r.session(o, c)
	if err := x.remove(ctx, s, how); err != nil {
		return r.blocked(ctx, o, x, err)
	}
	return r.release(ctx, o, "deleted the "+x.words())
}

// removalDemand is what an object needs to be allowed to delete what it stands for. A user that the operator has
// created or changed for the object no longer gets tags. Any other user may be somebody else's, and the object must
// not reach it by asking for tags that it is not allowed.
func removalDemand(o object, x subject) scope.Demand {
	d := x.Demand()
	if u, is := o.(*v1alpha1.QuorateUser); is && u.Status.PasswordVersion != "" {
		d.Tags = nil
	}
	return d
}

// heirOf returns the object for which the broker keeps what o stands for: one that is not being deleted; or, of those
// that all are, the oldest, which then deletes it.
func heirOf(o object, others []object) object {
	var oldest object
	for _, other := range others {
		if other.GetDeletionTimestamp().IsZero() {
			return other
		}
		if older(other, o) && (oldest == nil || older(other, oldest)) {
			oldest = other
		}
	}
	return oldest
}

// release lets the object go.
func (r *reconciler) release(ctx context.Context, o object, why string) (ctrl.Result, error) {
	if why != "" {
		r.event(o, corev1.EventTypeNormal, "Deleted", why)
	}
	before := as[object](o.DeepCopyObject())
	controllerutil.RemoveFinalizer(o, Finalizer)
	return ctrl.Result{}, kube.IgnoreNotFound(r.kube.Patch(ctx, o, kube.MergeFrom(before)))
}

// blocked reports why the object cannot be deleted yet, and how it can.
func (r *reconciler) blocked(ctx context.Context, o object, x subject, err error) (ctrl.Result, error) {
	status, now := o.Common(), time.Now()
	before := as[object](o.DeepCopyObject())
	reason, after := reasonInUse, patience(o.GetDeletionTimestamp().Time, now)
	message := "the " + x.words() + " is in use, and goes as soon as it is not: " + err.Error() +
		". To delete it at once, set spec.deletion to Always; to leave it in the broker, to Retain"
	if class := client.ClassOf(err); class != client.PreconditionFailed {
		v := troubled(err, status, now)
		reason, message = v.reason, "the "+x.words()+" cannot be deleted now: "+v.message+". To let go of this object all the same, set spec.deletion to Retain"
		after = max(after, v.after)
	}
	r.metrics.Failed(r.kind.name, reason)
	set(status, o.GetGeneration(), v1alpha1.ConditionDeletionBlocked, metav1.ConditionTrue, reason, message)
	return ctrl.Result{RequeueAfter: after}, r.write(ctx, before, o)
}
