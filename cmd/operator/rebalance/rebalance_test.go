package rebalance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/clienttest"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/broker"
)

// world is a real cluster whose leaders are uneven, and the reconciler over an API server in memory.
type world struct {
	*reconciler
	t      *testing.T
	broker *client.Client
	down   bool
}

func (w *world) For(context.Context, string, v1alpha1.ClusterReference) (*client.Client, error) {
	if w.down {
		return nil, &broker.NotReadyError{Reason: "ClusterNotFound", Message: "there is no such cluster"}
	}
	return w.broker, nil
}

// inMemory returns an API server in memory.
func inMemory(t *testing.T) kube.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.QuorateRebalance{}).Build()
}

// newWorld declares two queues that one node leads.
func newWorld(t *testing.T) *world {
	t.Helper()
	nodes := clienttest.Start(t, 3)
	c, err := client.New(client.Config{Addresses: nodes.Addresses()[:1], FixedAddresses: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w := &world{t: t, broker: c}
	w.reconciler = &reconciler{kube: inMemory(t), brokers: w, recorder: events.NewFakeRecorder(256)}
	for i := range 2 {
		q := client.Queue{Name: fmt.Sprint("q", i), Arguments: client.Table{"x-queue-leader-locator": "client-local"}}
		if _, err := c.DeclareQueue(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *world) create(name string) *v1alpha1.QuorateRebalance {
	w.t.Helper()
	o := &v1alpha1.QuorateRebalance{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Generation: 1}}
	o.Spec.Cluster.Name, o.Spec.Scope = "main", v1alpha1.RebalanceLeaders
	if err := w.kube.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
	return w.look(o)
}

// look takes one step and returns the object as it is afterwards; nil: it is gone.
func (w *world) look(o *v1alpha1.QuorateRebalance) *v1alpha1.QuorateRebalance {
	w.t.Helper()
	key := kube.ObjectKeyFromObject(o)
	if _, err := w.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		w.t.Fatal(err)
	}
	var after v1alpha1.QuorateRebalance
	if err := w.kube.Get(w.t.Context(), key, &after); err != nil {
		return nil
	}
	return &after
}

func (w *world) annotate(o *v1alpha1.QuorateRebalance, name, value string) *v1alpha1.QuorateRebalance {
	w.t.Helper()
	o.Annotations = map[string]string{name: value}
	if err := w.kube.Update(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
	return w.look(o)
}

// until looks again until the phase is reached.
func (w *world) until(o *v1alpha1.QuorateRebalance, p v1alpha1.RebalancePhase) *v1alpha1.QuorateRebalance {
	w.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); o.Status.Phase != p; o = w.look(o) {
		if time.Now().After(deadline) {
			w.t.Fatalf("phase %s: %+v; want %s", o.Status.Phase, o.Status, p)
		}
	}
	return o
}

func (w *world) leaders() (out string) {
	for i := range 2 {
		q, err := w.broker.GetQueue(w.t.Context(), client.QueueRef{Name: fmt.Sprint("q", i)})
		if err != nil {
			w.t.Fatal(err)
		}
		out += q.Leader + " "
	}
	return out
}

// Nothing moves before the approval of what was proposed; then the leaders are even, and there is nothing left to propose.
func TestProposeApproveDone(t *testing.T) {
	w := newWorld(t)
	before := w.leaders()
	o := w.create("leaders")
	p := o.Status.Proposal
	if o.Status.Phase != v1alpha1.RebalanceProposalReady || p.Moves != 1 || len(p.Lines) != 1 || !strings.Contains(p.Lines[0], "leads instead of") {
		t.Fatalf("%+v", o.Status)
	}
	if o = w.annotate(o, v1alpha1.AnnotationApprove, "another"); o.Status.Phase != v1alpha1.RebalanceProposalReady || o.Status.Conditions[0].Reason != "ApprovalOfAnother" {
		t.Errorf("%+v", o.Status)
	}
	if now := w.leaders(); now != before {
		t.Errorf("leaders %s moved to %s without an approval", before, now)
	}
	o = w.annotate(o, v1alpha1.AnnotationApprove, p.Hash)
	if o.Status.Phase != v1alpha1.RebalanceRebalancing && o.Status.Phase != v1alpha1.RebalanceDone || len(o.Annotations) > 0 {
		t.Errorf("%+v, annotations %v", o.Status, o.Annotations)
	}
	o = w.until(o, v1alpha1.RebalanceDone)
	if now := strings.Fields(w.leaders()); now[0] == now[1] {
		t.Errorf("leaders %q", now)
	}
	if o.Status.Operation == nil || o.Status.Operation.Done != 1 {
		t.Errorf("%+v", o.Status.Operation)
	}
	if o = w.annotate(o, v1alpha1.AnnotationRefresh, "true"); o.Status.Phase != v1alpha1.RebalanceDone || o.Status.Proposal.Moves != 0 || len(o.Annotations) > 0 {
		t.Errorf("%+v, %v", o.Status, o.Annotations)
	}
}

// What was approved is not done if the cluster has changed: it is proposed anew. A rebalance that began before the
// operator was killed is found, or begun.
func TestChangedAndKilled(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	o := w.create("changed")
	o.Status.Proposal.Hash = "former" // as if the plan had been another one
	if err := w.kube.Status().Update(ctx, o); err != nil {
		t.Fatal(err)
	}
	before := w.leaders()
	o = w.annotate(o, v1alpha1.AnnotationApprove, "true")
	if o.Status.Phase != v1alpha1.RebalanceProposalReady || o.Status.Proposal.Hash == "former" || len(o.Annotations) > 0 || w.leaders() != before {
		t.Fatalf("%+v, annotations %v", o.Status, o.Annotations)
	}
	// Killed after the record of the start and before the operation.
	o.Status.Phase, o.Status.Operation = v1alpha1.RebalanceRebalancing, nil
	if err := w.kube.Status().Update(ctx, o); err != nil {
		t.Fatal(err)
	}
	o = w.until(w.look(o), v1alpha1.RebalanceDone)
	if now := strings.Fields(w.leaders()); now[0] == now[1] {
		t.Errorf("leaders %q", now)
	}
	// The operation went with the process of its node.
	o.Status.Phase, o.Status.Operation = v1alpha1.RebalanceRebalancing, &v1alpha1.OperationStatus{ID: strings.Fields(before)[0] + ".1.999"}
	if err := w.kube.Status().Update(ctx, o); err != nil {
		t.Fatal(err)
	}
	if o = w.look(o); o.Status.Phase != v1alpha1.RebalanceDone || o.Status.Proposal.Moves != 0 {
		t.Errorf("%+v", o.Status)
	}
}

// A proposal can be cancelled, and an object goes even if its cluster is gone.
func TestCancelAndDelete(t *testing.T) {
	w := newWorld(t)
	o := w.annotate(w.create("cancelled"), v1alpha1.AnnotationCancel, "true")
	if o.Status.Phase != v1alpha1.RebalanceCancelled || len(o.Annotations) > 0 {
		t.Errorf("%+v, %v", o.Status, o.Annotations)
	}
	o.Status.Phase, o.Status.Operation = v1alpha1.RebalanceRebalancing, &v1alpha1.OperationStatus{ID: "n.1.1"}
	if err := w.kube.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	w.down = true
	if err := w.kube.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if o = w.look(o); o != nil {
		t.Errorf("%+v stays", o.ObjectMeta)
	}
}

// The API server refuses updates of an object that somebody wrote with an empty namespace of its cluster, because a client that
// knows its type drops that. It is looked after all the same.
func TestExplicitlyEmpty(t *testing.T) {
	w := &world{t: t, down: true}
	w.reconciler = &reconciler{brokers: w, recorder: events.NewFakeRecorder(256), kube: interceptor.NewClient(inMemory(t), interceptor.Funcs{
		Update: func(context.Context, kube.WithWatch, kube.Object, ...kube.UpdateOption) error {
			fault := field.Invalid(field.NewPath("spec"), "object", "cluster is immutable: make a new object")
			return apierrors.NewInvalid(schema.GroupKind{Kind: "QuorateRebalance"}, "empty", field.ErrorList{fault})
		},
	})}
	o := w.create("empty")
	if !controllerutil.ContainsFinalizer(o, Finalizer) || len(o.Status.Conditions) != 1 || o.Status.Conditions[0].Reason != "ClusterNotFound" {
		t.Errorf("finalizers %q, %+v", o.Finalizers, o.Status)
	}
}

// What has ended stays as it ended, and the object is left alone, also when the operator starts while the cluster is away. An
// approval or a cancellation that comes then does not count for the next proposal.
func TestEnded(t *testing.T) {
	w := &world{t: t, down: true}
	w.reconciler = &reconciler{brokers: w, recorder: events.NewFakeRecorder(256), kube: inMemory(t)}
	for _, phase := range []v1alpha1.RebalancePhase{v1alpha1.RebalanceDone, v1alpha1.RebalanceCancelled, v1alpha1.RebalanceFailed} {
		o := w.create(strings.ToLower(string(phase)))
		l := &look{w.reconciler, o, nil}
		l.phase(phase, "as it ended")
		if err := w.kube.Status().Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		out, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: kube.ObjectKeyFromObject(o)})
		if o = w.look(o); err != nil || out.RequeueAfter != 0 || o.Status.Conditions[0].Reason != string(phase) {
			t.Errorf("%s: %v, %v, %+v", phase, out, err, o.Status.Conditions)
		}
		for _, annotation := range []string{v1alpha1.AnnotationApprove, v1alpha1.AnnotationCancel} {
			if o = w.annotate(o, annotation, "true"); len(o.Annotations) > 0 || o.Status.Phase != phase {
				t.Errorf("%s: annotations %v, %+v", phase, o.Annotations, o.Status)
			}
		}
	}
}
