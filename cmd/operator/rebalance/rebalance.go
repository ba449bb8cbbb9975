// Package rebalance spreads queues evenly over the nodes of a cluster when a person asks for it, and shows first what
// would move: propose, approve, progress, done.
//
// The proposal is the broker's own dry run. Right before the start the broker is asked again, and if it would now do
// something else, that is proposed instead. The status has the phase of a rebalance; the broker knows whether an
// operation runs. So an operator that was killed between any two steps finds the operation it had begun, or begins
// it.
package rebalance

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/broker"
	"github.com/quorate/quorate/cmd/operator/metrics"
)

const (
	// Finalizer keeps an object until its operation is cancelled.
	Finalizer = v1alpha1.Prefix + "rebalance"
	// callTimeout bounds the calls of one look.
	callTimeout = 15 * time.Second
	// retryWait is when to reconcile again after a cluster could not be asked.
	retryWait = 10 * time.Second
	// cancelAge is for how long a deletion waits for a cluster in which it could cancel the operation.
	cancelAge = time.Minute
)

// Brokers connects to clusters.
type Brokers interface {
	// For returns a client of the cluster that an object of a namespace refers to. An error that only time or a person
	// mends is a *broker.NotReadyError.
	For(ctx context.Context, namespace string, r v1alpha1.ClusterReference) (*client.Client, error)
}

// Config is what the controller is made of. Manager and Brokers are needed.
type Config struct {
	Manager ctrl.Manager
	Brokers Brokers
	// Metrics are the operator's; nil: none.
	Metrics *metrics.Metrics
}

// +kubebuilder:rbac:groups=quorate.github.io,resources=quoraterebalances,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=quorate.github.io,resources=quoraterebalances/status,verbs=get;patch;update

// Add adds the controller to the manager.
func Add(cfg Config) error {
	m := cfg.Manager
	r := &reconciler{kube: m.GetClient(), recorder: m.GetEventRecorder(v1alpha1.FieldManager), brokers: cfg.Brokers, metrics: cfg.Metrics}
	changed := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{},
		predicate.NewPredicateFuncs(func(o kube.Object) bool { return !o.GetDeletionTimestamp().IsZero() }))
	return ctrl.NewControllerManagedBy(m).Named("rebalance").
		For(&v1alpha1.QuorateRebalance{}, builder.WithPredicates(changed)).Complete(r)
}

// reconciler follows rebalances. It has no state of its own.
type reconciler struct {
	kube     kube.Client
	recorder events.EventRecorder
	brokers  Brokers
	metrics  *metrics.Metrics
}

// look is one reconciliation of one object.
type look struct {
	*reconciler
	o *v1alpha1.QuorateRebalance
	c *client.Client
}

// Reconcile takes one step of one rebalance.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var o v1alpha1.QuorateRebalance
	if err := r.kube.Get(ctx, request.NamespacedName, &o); err != nil {
		return ctrl.Result{}, kube.IgnoreNotFound(err)
	}
	l, deleting := &look{r, &o, nil}, !o.DeletionTimestamp.IsZero()
	if deleting && !controllerutil.ContainsFinalizer(&o, Finalizer) {
		return ctrl.Result{}, nil
	}
	if !deleting {
		if err := r.hold(ctx, &o); err != nil {
			if apierrors.IsConflict(err) {
				err = nil // whoever changed it has caused another look
			}
			return ctrl.Result{}, err
		}
		if now := time.Now(); decide(&o, now) == rest {
			return l.idle(ctx, now)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var err error
	l.c, err = r.brokers.For(ctx, o.Namespace, o.Spec.Cluster)
	if deleting {
		return l.release(ctx, err)
	}
	before := o.DeepCopy()
	after := retryWait
	if err == nil {
		after, err = l.step(ctx)
	}
	if err != nil {
		l.troubled(err)
		after = retryWait
	}
	return ctrl.Result{RequeueAfter: after}, l.write(ctx, before)
}

// hold adds the finalizer. An update would also drop the fields that somebody has written as empty, and the API server would
// refuse it as a change of what is immutable.
func (r *reconciler) hold(ctx context.Context, o *v1alpha1.QuorateRebalance) error {
	if controllerutil.ContainsFinalizer(o, Finalizer) {
		return nil
	}
	before := o.DeepCopy()
	controllerutil.AddFinalizer(o, Finalizer)
	return r.kube.Patch(ctx, o, kube.MergeFromWithOptions(before, kube.MergeFromWithOptimisticLock{}))
}

// idle leaves the object until its proposal is old, or until a person asks for something. It asks no cluster, because
// what was done does not depend on whether one answers. An approval or a cancellation that comes after the end is
// removed. Otherwise it would start or prevent the next proposal, for which it was not meant.
func (l *look) idle(ctx context.Context, now time.Time) (ctrl.Result, error) {
	if s := &l.o.Status; s.Phase == v1alpha1.RebalanceProposalReady {
		return ctrl.Result{RequeueAfter: max(proposalAge-now.Sub(s.Proposal.MadeAt.Time), time.Second)}, nil
	}
	return ctrl.Result{}, l.followed(ctx)
}

// step carries out the next step and returns when to reconcile again; 0: when something changes.
func (l *look) step(ctx context.Context) (time.Duration, error) {
	now := time.Now()
	switch decide(l.o, now) {
	case propose:
		return l.propose(ctx, now)
	case start:
		return l.start(ctx, now)
	case resume:
		return l.resume(ctx, now)
	case follow:
		return l.follow(ctx, now)
	case stop:
		if _, err := l.c.CancelOperation(ctx, l.o.Status.Operation.ID); err != nil && client.ClassOf(err) != client.NotFound {
			return 0, err
		}
		return l.follow(ctx, now)
	case giveUp:
		l.phase(v1alpha1.RebalanceCancelled, "the proposal was cancelled; nothing has moved")
		return 0, nil
	case misplaced:
		l.say(metav1.ConditionFalse, "ApprovalOfAnother", fmt.Sprintf("the annotation %s has %q, and the present proposal is %q: look at it again, and approve that",
			v1alpha1.AnnotationApprove, l.o.Annotations[v1alpha1.AnnotationApprove], l.o.Status.Proposal.Hash))
		return proposalAge, nil
	case rest: // idle has seen to it
	}
	return 0, nil
}

// propose asks the broker what it would move. A proposal that is still right keeps its place.
func (l *look) propose(ctx context.Context, now time.Time) (time.Duration, error) {
	p, err := l.plan(ctx, now)
	if err != nil {
		return 0, err
	}
	former := l.o.Status.Proposal
	waited := l.o.Status.Phase == v1alpha1.RebalanceProposalReady && former != nil
	l.o.Status.Proposal, l.o.Status.Operation = p, nil
	if p.Moves == 0 {
		l.phase(v1alpha1.RebalanceDone, "all nodes have about as many members and leaders: there is nothing to move")
		return 0, nil
	}
	l.phase(v1alpha1.RebalanceProposalReady, fmt.Sprintf("%d moves are proposed; begin them with: kubectl -n %s annotate quoraterebalance %s %s=%s",
		p.Moves, l.o.Namespace, l.o.Name, v1alpha1.AnnotationApprove, p.Hash))
	if !waited || former.Hash != p.Hash {
		l.event(corev1.EventTypeNormal, "Proposed", fmt.Sprintf("proposal %s: %d moves", p.Hash, p.Moves))
	}
	if wishOf(l.o) == begin { // an approval in advance, or Automatic
		return l.start(ctx, now)
	}
	return proposalAge, nil
}

// plan asks for the broker's dry run.
func (l *look) plan(ctx context.Context, now time.Time) (*v1alpha1.RebalanceProposal, error) {
	plan, err := l.c.RebalanceQueues(ctx, requestOf(l.o, true))
	if err != nil {
		return nil, err
	}
	return proposalOf(plan, now), nil
}

// start records that it begins before it begins: a later reconciliation that finds this record without an operation
// looks for one.
func (l *look) start(ctx context.Context, now time.Time) (time.Duration, error) {
	p, err := l.plan(ctx, now)
	if err != nil {
		return 0, err
	}
	if approved := l.o.Status.Proposal.Hash; p.Hash != approved {
		l.event(corev1.EventTypeWarning, "ProposalChanged", fmt.Sprintf("the cluster has changed: in place of proposal %s there is %s, which needs an approval of its own", approved, p.Hash))
		l.o.Status.Proposal = nil
		if err := l.followed(ctx); err != nil {
			return 0, err
		}
		return l.propose(ctx, now)
	}
	before := l.o.DeepCopy()
	l.phase(v1alpha1.RebalanceRebalancing, "the rebalance begins")
	if err := l.write(ctx, before); err != nil {
		return 0, err
	}
	return l.run(ctx)
}

// run starts the operation.
func (l *look) run(ctx context.Context) (time.Duration, error) {
	started, err := l.c.RebalanceQueues(ctx, requestOf(l.o, false))
	if err != nil {
		return 0, err
	}
	l.show(started.Operation)
	l.event(corev1.EventTypeNormal, "Started", "operation "+started.Operation.ID+" moves members and leaders")
	return progressWait, nil
}

// resume continues a start that was interrupted: the operation runs already, or what was approved is still to be done.
func (l *look) resume(ctx context.Context, now time.Time) (time.Duration, error) {
	running, err := client.Collect(l.c.Operations(ctx, client.ListOperationsRequest{Running: true}))
	var silent *client.SilentNodesError
	if err != nil && !errors.As(err, &silent) {
		return 0, err
	}
	var all v1alpha1.QuorateRebalanceList
	if err := l.kube.List(ctx, &all); err != nil {
		return 0, err
	}
	if op := interrupted(l.o, all.Items, running); op != nil {
		l.show(op)
		return progressWait, nil
	}
	if wishOf(l.o) == cancel {
		l.phase(v1alpha1.RebalanceCancelled, "cancelled before anything moved")
		return 0, nil
	}
	p, err := l.plan(ctx, now)
	if err != nil {
		return 0, err
	}
	if approved := l.o.Status.Proposal; approved != nil && approved.Hash == p.Hash {
		return l.run(ctx)
	}
	return l.propose(ctx, now)
}

// follow checks the progress of the operation. An operation is gone if its node has ended: what is left to move is
// proposed again.
func (l *look) follow(ctx context.Context, now time.Time) (time.Duration, error) {
	op, err := l.c.Operation(ctx, l.o.Status.Operation.ID)
	if client.ClassOf(err) == client.NotFound {
		l.event(corev1.EventTypeWarning, "Interrupted", "operation "+l.o.Status.Operation.ID+" ended with the process of its node; what is left is proposed anew")
		l.o.Status.Proposal = nil
		l.phase(v1alpha1.RebalancePending, "the operation was interrupted")
		if err := l.followed(ctx); err != nil {
			return 0, err
		}
		return l.propose(ctx, now)
	}
	if err != nil {
		return 0, err
	}
	l.show(&op)
	phase, over := ended(op.State)
	if !over {
		return progressWait, nil
	}
	message := map[v1alpha1.RebalancePhase]string{
		v1alpha1.RebalanceDone:      "all moves that were possible are made",
		v1alpha1.RebalanceCancelled: "cancelled; what had moved stays moved",
		v1alpha1.RebalanceFailed:    "the broker could not make all moves, and makes the rest after a refresh: " + op.Error,
	}[phase]
	l.phase(phase, message)
	l.event(corev1.EventTypeNormal, string(phase), message)
	return 0, nil
}

// show writes the progress of an operation into the status.
func (l *look) show(op *client.Operation) {
	l.o.Status.Operation = &v1alpha1.OperationStatus{
		ID: op.ID, Phase: op.Phase, Done: op.Done, Total: op.Total, Unit: op.Unit, Detail: op.Detail,
	}
}

// phase sets the phase with its condition.
func (l *look) phase(p v1alpha1.RebalancePhase, message string) {
	l.o.Status.Phase = p
	ready := metav1.ConditionFalse
	if p == v1alpha1.RebalanceDone {
		ready = metav1.ConditionTrue
	}
	l.say(ready, string(p), message)
}

// say sets the condition Ready.
func (l *look) say(ready metav1.ConditionStatus, reason, message string) {
	s := &l.o.Status
	s.ObservedGeneration = l.o.Generation
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: ready, Reason: reason, Message: message, ObservedGeneration: l.o.Generation,
	})
}

// troubled reports why the cluster could not be asked. The phase stays, so that the step is repeated.
func (l *look) troubled(err error) {
	reason, message := "Refused", err.Error()
	var notReady *broker.NotReadyError
	switch class := client.ClassOf(err); {
	case errors.As(err, &notReady):
		reason, message = notReady.Reason, notReady.Message
	case class == client.Unavailable, class == "":
		reason = "ClusterUnavailable"
	}
	l.metrics.Failed(metrics.KindRebalance, reason)
	generation := l.o.Status.ObservedGeneration
	l.say(metav1.ConditionFalse, reason, message)
	l.o.Status.ObservedGeneration = generation // the specification is still to be followed
}

func (l *look) event(kind, reason, message string) {
	l.recorder.Eventf(l.o, nil, kind, reason, "Rebalance", "%s", message)
}

// write writes the status if it has changed, and removes the annotations that were followed.
func (l *look) write(ctx context.Context, before *v1alpha1.QuorateRebalance) error {
	if !equality.Semantic.DeepEqual(before.Status, l.o.Status) {
		if err := l.kube.Status().Patch(ctx, l.o, kube.MergeFrom(before)); err != nil {
			return kube.IgnoreNotFound(err)
		}
	}
	if before.Status.Phase == l.o.Status.Phase && l.o.Annotations[v1alpha1.AnnotationRefresh] == "" {
		return nil
	}
	return l.followed(ctx)
}

// followed removes the annotations, after what they asked for is in the status: if the operator is killed in between,
// they are followed once more, which does no harm.
func (l *look) followed(ctx context.Context) error {
	status := l.o.Status.DeepCopy()
	before := l.o.DeepCopy()
	for _, a := range []string{v1alpha1.AnnotationApprove, v1alpha1.AnnotationCancel, v1alpha1.AnnotationRefresh} {
		delete(l.o.Annotations, a)
	}
	if len(before.Annotations) == len(l.o.Annotations) {
		return nil
	}
	err := l.kube.Patch(ctx, l.o, kube.MergeFrom(before))
	l.o.Status = *status // the answer has the status that the API server knows, which may be older
	return kube.IgnoreNotFound(err)
}

// release cancels the operation and lets the object go; it does not wait for ever for a cluster that does not answer.
func (l *look) release(ctx context.Context, err error) (ctrl.Result, error) {
	if s := &l.o.Status; s.Phase == v1alpha1.RebalanceRebalancing && s.Operation != nil {
		if err == nil {
			_, err = l.c.CancelOperation(ctx, s.Operation.ID)
		}
		gone := client.ClassOf(err) == client.NotFound
		if err != nil && !gone && time.Since(l.o.DeletionTimestamp.Time) < cancelAge && !noCluster(err) {
			return ctrl.Result{RequeueAfter: progressWait}, nil
		}
	}
	before := l.o.DeepCopy()
	controllerutil.RemoveFinalizer(l.o, Finalizer)
	return ctrl.Result{}, kube.IgnoreNotFound(l.kube.Patch(ctx, l.o, kube.MergeFrom(before)))
}

// noCluster reports that there is no cluster in which anything could be cancelled.
func noCluster(err error) bool {
	var notReady *broker.NotReadyError
	return errors.As(err, &notReady) && notReady.Reason == "ClusterNotFound"
}
