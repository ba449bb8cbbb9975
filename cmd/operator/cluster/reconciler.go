package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/broker"
	"github.com/quorate/quorate/cmd/operator/chart"
	"github.com/quorate/quorate/cmd/operator/metrics"
)

const (
	// instanceLabel names the cluster that a pod or a claim is of.
	instanceLabel = "app.kubernetes.io/instance"
	// passTimeout bounds a pass: questions to brokers that hang do not hold other clusters up for longer.
	passTimeout = 2 * time.Minute
	// soon is when to look again after a step, later when nothing is to be done: brokers send no news.
	soon  = 2 * time.Second
	later = 30 * time.Second
	// askedMost bounds the questions of a pass. Each node is asked about once for each topic at most.
	askedMost = 400
	// parallel is how many clusters are reconciled at the same time.
	parallel = 4
)

// Reconciler reconciles QuorateClusters. Its fields are set once; Reconcile may be called concurrently, for each
// cluster once at a time.
type Reconciler struct {
	// Client reads from caches but Secrets, ConfigMaps and StorageClasses.
	Client kube.Client
	// Pool has the connections to brokers.
	Pool *broker.Pool
	// Chart makes the objects.
	Chart *chart.Chart
	// Events receives what the operator does, for people.
	Events events.EventRecorder
	// Metrics are the operator's; nil: none.
	Metrics *metrics.Metrics
	// Namespace of the operator itself; empty: unknown.
	Namespace string
	// Now is the time; nil: the clock's.
	Now func() time.Time
}

// +kubebuilder:rbac:groups=quorate.github.io,resources=quorateclusters,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=quorate.github.io,resources=quorateclusters/status;quorateclusters/finalizers,verbs=get;update;patch
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;update;patch;delete
// +kubebuilder:rbac:groups="",resources=services;serviceaccounts;configmaps,verbs=get;list;create;update;patch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;update;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;create;update;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;create;update;patch;delete
// +kubebuilder:rbac:groups=batch,resources=cronjobs,verbs=get;create;update;patch;delete
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=list
// +kubebuilder:rbac:groups="",resources=events,verbs=list
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=podmonitors;servicemonitors;prometheusrules,verbs=get;create;update;patch;delete
// +kubebuilder:rbac:groups=cert-manager.io,resources=certificates,verbs=get;create;update;patch;delete
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager adds the controller to a manager.
func (r *Reconciler) SetupWithManager(m ctrl.Manager) error {
	ofInstance := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o kube.Object) []reconcile.Request {
		name := o.GetLabels()[instanceLabel]
		if name == "" || o.GetLabels()["app.kubernetes.io/name"] != "quorate" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
	})
	return ctrl.NewControllerManagedBy(m).Named("cluster").
		For(&v1alpha1.QuorateCluster{}, builder.WithPredicates(due())).
		Owns(&appsv1.StatefulSet{}).
		Watches(&corev1.Pod{}, ofInstance).
		Watches(&corev1.PersistentVolumeClaim{}, ofInstance).
		WithOptions(options()).
		Complete(r)
}

// due passes what a look at an object is due for at once: a new specification, annotations such as the one for hands-off, or a
// deletion. The operator's own writes of the status are not: its counts differ from look to look while queues come and go, and
// each look would cause the next one.
func due() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{},
		predicate.NewPredicateFuncs(func(o kube.Object) bool { return !o.GetDeletionTimestamp().IsZero() }))
}

// Reconcile takes one step for a cluster.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	var q v1alpha1.QuorateCluster
	if err := r.Client.Get(ctx, request.NamespacedName, &q); err != nil {
		if apierrors.IsNotFound(err) {
			r.Pool.Forget(request.NamespacedName)
			r.Metrics.Forget(request.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, err
	}
	if q.DeletionTimestamp != nil {
		return ctrl.Result{}, r.end(ctx, &q)
	}
	t := &pass{Reconciler: r, q: &q}
	step, err := t.run(ctx)
	t.count(err)
	if after := t.report(ctx, step, err); after != nil || err != nil {
		return ctrl.Result{}, errors.Join(err, after)
	}
	after := t.again(step)
	if step.Do == Nothing && after == later {
		return ctrl.Result{RequeueAfter: after}, t.sweep(ctx)
	}
	return ctrl.Result{RequeueAfter: after}, nil
}

// again returns when to look again. What only people end may last for days, and Kubernetes would be asked for all objects in vain
// every few seconds: what they do changes an object that is watched, and so causes a look at once.
func (t *pass) again(step Step) time.Duration {
	busy := step.Do != Nothing && (t.seen == nil || t.seen.HandsOff == "")
	if busy || slices.ContainsFunc(t.blocks, passing) {
		return soon
	}
	return later
}

// passing reports whether something that is blocked may continue at any moment: the broker does not announce it.
func passing(b Block) bool {
	switch b.Condition {
	case v1alpha1.ConditionStorageBlocked, v1alpha1.ConditionVolumesLeft, v1alpha1.ConditionHandsOff:
		return false
	}
	switch b.Reason {
	case reasonTooOld, reasonPaused, reasonClaimGoing, reasonClaimLeft:
		return false
	}
	return true
}

// count records how the pass went.
func (t *pass) count(err error) {
	answered := err == nil && t.seen != nil && t.seen.Broker != nil
	t.Metrics.Looked(kube.ObjectKeyFromObject(t.q), answered)
	switch {
	case err != nil || len(t.refusals) > 0:
		t.Metrics.Failed(metrics.KindCluster, metrics.ReasonKubernetes)
	case !answered:
		t.Metrics.Failed(metrics.KindCluster, metrics.ReasonUnreachable)
	}
}

// pass is one reconcile pass for one cluster. It belongs to one goroutine.
type pass struct {
	*Reconciler

	q       *v1alpha1.QuorateCluster
	objects *chart.Objects
	drawn   int32               // for how many nodes objects has what each needs
	set     *appsv1.StatefulSet // as it is; nil: none
	// versions are what is known of those of stored state, tooOld is why the nodes do not get the image that is asked for.
	versions versions
	tooOld   string
	seen     *Seen
	broker   *asked
	blocks   []Block
	backups  *backups // nil: there are none, or they were not looked at
	// refusals are what could not be made, slow the kinds of which the API server did not take one in time.
	refusals []refusal
	slow     []string
	// events that are about this pass alone
	operation *v1alpha1.OperationStatus
}

// handsOff is why a person has asked the operator to change nothing of a cluster; "": nobody has.
func handsOff(q *v1alpha1.QuorateCluster) string {
	switch why, is := q.Annotations[v1alpha1.AnnotationHandsOff]; {
	case !is || why == "false":
		return ""
	case why == "":
		return "no reason is given"
	default:
		return why
	}
}

// gather makes what the nodes need, unless it is to change nothing, and looks at the cluster.
func (t *pass) gather(ctx context.Context) error {
	if err := t.draw(ctx); err != nil {
		return err
	}
	if handsOff(t.q) == "" {
		if err := t.prepare(ctx); err != nil {
			return err
		}
	}
	if err := t.observe(ctx); err != nil {
		t.seen = nil // a part of it is nothing to report
		return err
	}
	return t.learn(ctx)
}

// run gathers, decides and does.
func (t *pass) run(ctx context.Context) (Step, error) {
	if err := t.gather(ctx); err != nil {
		if o, is := errors.AsType[*obstacle](err); is { // the StatefulSet is somebody else's: nothing here is the operator's
			t.note(kindSet, true, o)
			return Step{Do: Wait, Why: o.message}, nil
		}
		return Step{Do: Wait, Why: err.Error()}, err
	}
	for range askedMost {
		var step Step
		if step, t.blocks = Plan(t.seen); step.Do == Ask {
			answer, err := t.ask(ctx, step.Question)
			if err != nil {
				return Step{Do: Wait, Why: "the broker did not answer: " + err.Error()}, nil //nolint:nilerr // it is asked again
			}
			t.seen.Answers[step.Question] = answer
			continue
		}
		done, err := t.carryOut(ctx, step)
		if t.mayNotGrow(step, err) {
			continue
		}
		return done, err
	}
	return Step{}, fmt.Errorf("cluster: the plan of cluster %q asks for more than %d answers", t.q.Name, askedMost)
}

// carryOut does a step. What Kubernetes or the broker refuse by a conflict is tried again with what is there then.
func (t *pass) carryOut(ctx context.Context, step Step) (Step, error) {
	err := t.do(ctx, step)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsTooManyRequests(err):
		return Step{Do: Wait, Why: step.Why + ": " + err.Error()}, nil
	case err != nil:
		return step, fmt.Errorf("cluster: %s: %w", step.Why, err)
	}
	if step.Do != Wait && step.Do != Nothing {
		t.Events.Eventf(t.q, nil, corev1.EventTypeNormal, step.Do.String(), "Step", "%s", step.Why)
	}
	return step, nil
}

// mayNotGrow notes that Kubernetes has refused to let a volume grow, and reports whether it has: by a quota, because the
// volume is a static one, or because its class does not allow it. That is an answer to plan by, as those of the broker are.
func (t *pass) mayNotGrow(step Step, err error) bool {
	refused, is := errors.AsType[*apierrors.StatusError](err)
	if !is || step.Do != GrowClaim {
		return false
	}
	c := t.seen.Claims[step.Node]
	c.Refused = refused.Error()
	t.seen.Claims[step.Node] = c
	return true
}

// pod returns the name of a node and its pod.
func (t *pass) pod(node int) string { return fmt.Sprintf("%s-%d", t.q.Name, node) }

// claim returns the name of a node's volume claim.
func (t *pass) claim(node int) string { return "data-" + t.pod(node) }
