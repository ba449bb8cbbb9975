package topology

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/metrics"
	"github.com/quorate/quorate/cmd/operator/scope"
	"github.com/quorate/quorate/cmd/operator/table"
)

// Finalizer keeps an object until what it stands for in the broker is dealt with.
const Finalizer = v1alpha1.Prefix + "topology"

// age is how old a listing may be to be good enough.
type age time.Duration

func (a age) duration() time.Duration { return time.Duration(a) }

// freshAge is the age of listings that answer a refusal of the broker just now.
const freshAge = age(2 * time.Second)

// reconciler keeps the objects of one kind. It has no state of its own: all is in the objects and in the broker.
type reconciler struct {
	kind     kind
	kube     kube.Client
	secrets  kube.Reader
	versions kube.Reader
	recorder events.EventRecorder
	clusters *clusters
	metrics  *metrics.Metrics
	resync   time.Duration
}

// Reconcile compares one object with the broker, and brings the broker a step closer to it.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	out, err := r.look(ctx, request)
	if err != nil {
		r.metrics.Failed(r.kind.name, metrics.ReasonKubernetes)
	}
	return out, err
}

// look is Reconcile; an error is about objects of Kubernetes.
func (r *reconciler) look(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	o := r.kind.object()
	if err := r.kube.Get(ctx, request.NamespacedName, o); err != nil {
		return ctrl.Result{}, kube.IgnoreNotFound(err)
	}
	if !o.GetDeletionTimestamp().IsZero() {
		return r.delete(ctx, o)
	}
	if err := r.hold(ctx, o); err != nil {
		return ctrl.Result{}, ignoreConflict(err)
	}
	before := as[object](o.DeepCopyObject())
	v := r.keep(ctx, o)
	v.put(o.Common(), o.GetGeneration())
	if !v.ready {
		r.metrics.Failed(r.kind.name, v.reason)
	}
	return ctrl.Result{RequeueAfter: v.after}, r.write(ctx, before, o)
}

// hold adds the finalizer. An update would also drop the fields that somebody has written as empty, and the API server would
// refuse it as a change of what is immutable.
func (r *reconciler) hold(ctx context.Context, o object) error {
	if controllerutil.ContainsFinalizer(o, Finalizer) {
		return nil
	}
	before := as[object](o.DeepCopyObject())
	controllerutil.AddFinalizer(o, Finalizer)
	return r.kube.Patch(ctx, o, kube.MergeFromWithOptions(before, kube.MergeFromWithOptimisticLock{}))
}

// ignoreConflict passes an error unless somebody has changed the object: then it is looked at again anyway.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// write writes the status if it has changed.
func (r *reconciler) write(ctx context.Context, before, after object) error {
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	return kube.IgnoreNotFound(r.kube.Status().Patch(ctx, after, kube.MergeFrom(before)))
}

// keep makes the broker have what the object says, as far as that is safe.
func (r *reconciler) keep(ctx context.Context, o object) verdict {
	status, now := o.Common(), time.Now()
	subject, faults := r.kind.read(o)
	if len(faults) > 0 {
		return verdict{reason: reasonInvalid, message: faults.ToAggregate().Error()}
	}
	c, v := r.cluster(ctx, o)
	if c == nil {
		return v
	}
	if refused := scope.Check(c, o.GetNamespace(), subject.Demand()); len(refused) > 0 {
		return outOfScope(refused)
	}
	switch owner, err := r.owner(ctx, o, subject, c); {
	case err != nil:
		return verdict{reason: reasonFailed, message: err.Error(), after: shortestWait}
	case owner != nil:
		// The owner may cease to be one without being deleted, which alone causes a look: by faults, or out of scope.
		return verdict{reason: reasonConflict, after: r.later(), message: fmt.Sprintf(
			"the %s belongs to %s, which is older: delete one of the two objects, or give this one another name", subject.words(), nameOf(r.kind, owner))}
	}
	s := r.session(o, c)
	if !reconciled(status, o.GetGeneration()) {
		return r.make(ctx, s, subject, nil, now)
	}
	found, differences, err := subject.compare(ctx, s)
	switch decide(found, differences, r.kind.mends()) {
	case apply:
		if err == nil {
			return r.make(ctx, s, subject, differences, now)
		}
	case showDrift:
		return r.drifted(o, subject, differences)
	case nothing:
	}
	if err != nil {
		return troubled(err, status, now)
	}
	return r.inBroker(subject)
}

// reconciled reports whether the present specification was carried out, or compared, before: then a listing shows what the
// broker has, and no call about the one object is needed.
func reconciled(s *v1alpha1.TopologyStatus, generation int64) bool {
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
	return c != nil && c.ObservedGeneration == generation && (c.Reason == reasonInBroker || c.Reason == reasonDrifted)
}

// step is what to do about an object.
type step uint8

const (
	nothing step = iota
	apply
	showDrift
)

// decide compares only what it is given: what is missing is created, what differs is corrected if the broker can do
// that, and otherwise shown.
func decide(found bool, differences []table.Difference, mends bool) step {
	switch {
	case found && len(differences) == 0:
		return nothing
	case found && !mends:
		return showDrift
	}
	return apply
}

// make applies an object to the broker. differences are those that this mends; nil: it was not compared.
func (r *reconciler) make(ctx context.Context, s *session, x subject, differences []table.Difference, now time.Time) verdict {
	created, err := x.apply(ctx, s)
	if err != nil {
		return r.refused(ctx, s, x, err, now)
	}
	switch {
	case created:
		r.event(s.object, corev1.EventTypeNormal, "Created", "made the "+x.words())
	case len(differences) > 0:
		r.event(s.object, corev1.EventTypeWarning, "Mended", "somebody changed the "+x.words()+" in the broker; it is put back: "+table.Text(differences))
	}
	return r.inBroker(x)
}

// inBroker is the verdict about an object that is as it should be. The next look is a while later, not all at once.
func (r *reconciler) inBroker(x subject) verdict {
	return verdict{ready: true, reason: reasonInBroker, message: "the broker has the " + x.words(), after: r.later()}
}

// later spreads the looks of many objects over the time between two of them.
func (r *reconciler) later() time.Duration {
	return r.resync - r.resync/5 + rand.N(2*r.resync/5+1) //nolint:gosec // spreads looks, keeps no secret
}

// refused finds out what a refusal of the broker means: if something differs, that is shown field by field.
func (r *reconciler) refused(ctx context.Context, s *session, x subject, err error, now time.Time) verdict {
	class := client.ClassOf(err)
	if !r.kind.mends() && (class == client.PreconditionFailed || class == client.ResourceLocked) {
		s.maxAge = freshAge
		if found, differences, failed := x.compare(ctx, s); failed == nil && found && len(differences) > 0 {
			return r.drifted(s.object, x, differences)
		}
	}
	v := troubled(err, s.object.Common(), now)
	if v.reason == reasonRefused {
		r.eventOnce(s.object, v)
	}
	return v
}

// drifted is the verdict about something that differs and cannot be mended.
func (r *reconciler) drifted(o object, x subject, differences []table.Difference) verdict {
	text := table.Text(differences)
	v := verdict{
		reason: reasonDrifted, drifted: text, after: r.later(),
		message: fmt.Sprintf("the %s is not as specified: %s. %s", x.words(), text, r.kind.remedy),
	}
	r.eventOnce(o, v)
	return v
}

// eventOnce records an event for a verdict that the status does not have yet.
func (r *reconciler) eventOnce(o object, v verdict) {
	c := meta.FindStatusCondition(o.Common().Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Reason != v.reason || c.Message != v.message {
		r.event(o, corev1.EventTypeWarning, v.reason, v.message)
	}
}

func (r *reconciler) event(o object, kind, reason, message string) {
	const most = 1024 // bytes of an event's note, which the API server bounds
	if len(message) > most {
		message = strings.ToValidUTF8(message[:most], "")
	}
	r.recorder.Eventf(o, nil, kind, reason, "Reconcile", "%s", message)
}

// session returns what one reconciliation works with.
func (r *reconciler) session(o object, c *v1alpha1.QuorateCluster) *session {
	x := r.clusters.of(c)
	return &session{object: o, inventory: x.inventory, dial: x.dial, own: x.own, kube: r.kube, secrets: r.secrets, versions: r.versions, maxAge: age(r.resync / 2)}
}

// cluster returns the object's cluster, or the verdict that there is none to work with.
func (r *reconciler) cluster(ctx context.Context, o object) (*v1alpha1.QuorateCluster, verdict) {
	name := clusterOf(o)
	var c v1alpha1.QuorateCluster
	switch err := r.kube.Get(ctx, name, &c); {
	case apierrors.IsNotFound(err):
		r.clusters.forget(name)
		return nil, verdict{reason: reasonNoCluster, message: fmt.Sprintf("there is no QuorateCluster %q: create it, or make an object with another spec.cluster", name)}
	case err != nil:
		return nil, verdict{reason: reasonFailed, message: err.Error(), after: shortestWait}
	case !c.DeletionTimestamp.IsZero():
		return nil, verdict{reason: reasonNotReady, message: fmt.Sprintf("the QuorateCluster %q is being deleted", name)}
	}
	return &c, verdict{}
}

// outOfScope is the verdict about an object that the cluster does not allow to its namespace. A change of the cluster
// causes the next look.
func outOfScope(refused []scope.Refusal) verdict {
	return verdict{reason: refused[0].Reason, message: scope.Text(refused)}
}

// owner returns the object that owns what this one names, if that is another one: the oldest of all that may. An object
// that is being deleted owns it until it is gone.
func (r *reconciler) owner(ctx context.Context, o object, x subject, c *v1alpha1.QuorateCluster) (object, error) {
	all, err := r.namesakes(ctx, o, x, c)
	if err != nil {
		return nil, err
	}
	oldest := o
	for _, other := range all {
		if _, faults := r.kind.read(other); len(faults) == 0 && older(other, oldest) {
			oldest = other
		}
	}
	if oldest == o {
		return nil, nil
	}
	return oldest, nil
}

// namesakes returns the other objects that name the same thing in the broker and may do so. One with faults is not carried
// out now, but may have been before.
func (r *reconciler) namesakes(ctx context.Context, o object, x subject, c *v1alpha1.QuorateCluster) ([]object, error) {
	list := r.kind.list()
	if err := r.kube.List(ctx, list, kube.MatchingFields{indexIdentity: identityOf(o, x)}); err != nil {
		return nil, err
	}
	var out []object
	err := meta.EachListItem(list, func(item runtimeObject) error {
		other := as[object](item)
		if other.GetUID() == o.GetUID() {
			return nil
		}
		if x, _ := r.kind.read(other); len(scope.Check(c, other.GetNamespace(), x.Demand())) == 0 {
			out = append(out, other)
		}
		return nil
	})
	return out, err
}

// older orders objects by age; those of one second by their names.
func older(a, b object) bool {
	x, y := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	if !x.Equal(&y) {
		return x.Before(&y)
	}
	if a.GetNamespace() != b.GetNamespace() {
		return a.GetNamespace() < b.GetNamespace()
	}
	return a.GetName() < b.GetName()
}

// nameOf names an object in messages.
func nameOf(k kind, o metav1.Object) string {
	return k.name + " " + o.GetNamespace() + "/" + o.GetName()
}
