package cluster

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

// Ready needs as many available pods as nodes are wanted, but not of a StatefulSet that was just made again: its controller
// has not counted them.
func TestReady(t *testing.T) {
	for what, c := range map[string]struct {
		ready int32
		set   *Set
		want  bool
	}{
		"all are available":             {3, &Set{Available: 3, Settled: true}, true},
		"ready, and not yet available":  {3, &Set{Available: 2, Settled: true}, false},
		"available, and not ready more": {2, &Set{Available: 3, Settled: true}, false},
		"made again":                    {3, &Set{}, true},
		"made again, and one is away":   {2, &Set{}, false},
		"no StatefulSet":                {3, nil, true},
	} {
		q := &v1alpha1.QuorateCluster{}
		q.Spec.Replicas, q.Status.ReadyReplicas = 3, c.ready
		x := &turn{q: q, seen: &Seen{Set: c.set, Broker: &Broker{}}}
		x.ready()
		if got := meta.IsStatusConditionTrue(q.Status.Conditions, v1alpha1.ConditionReady); got != c.want {
			t.Errorf("%s: %v, %+v", what, got, q.Status.Conditions)
		}
	}
}

// A cluster that was Ready and cannot be looked at is not known to be down. It stays unknown until it is looked at.
func TestNotLookedAt(t *testing.T) {
	x := &turn{q: &v1alpha1.QuorateCluster{}}
	is := func(want metav1.ConditionStatus) {
		t.Helper()
		x.ready()
		if c := meta.FindStatusCondition(x.q.Status.Conditions, v1alpha1.ConditionReady); c.Status != want || c.Message == "" {
			t.Errorf("Ready is %+v, want %s", c, want)
		}
	}
	is(metav1.ConditionFalse)
	is(metav1.ConditionFalse)
	x.condition(v1alpha1.ConditionReady, metav1.ConditionTrue, "Serving", "3 nodes serve clients")
	is(metav1.ConditionUnknown)
	is(metav1.ConditionUnknown)
}

// A status that the operator writes causes no look, which would write the next one. What people change does.
func TestDue(t *testing.T) {
	for what, c := range map[string]struct {
		change func(q *v1alpha1.QuorateCluster)
		due    bool
	}{
		"nothing": {func(*v1alpha1.QuorateCluster) {}, false},
		"the status": {func(q *v1alpha1.QuorateCluster) {
			q.Status.ReadyReplicas, q.Status.Nodes = 3, []v1alpha1.NodeStatus{{Name: "orders-0", Members: 7}}
		}, false},
		"the finalizer":     {func(q *v1alpha1.QuorateCluster) { q.Finalizers = []string{finalizer} }, false},
		"the specification": {func(q *v1alpha1.QuorateCluster) { q.Generation++ }, true},
		"hands off": {func(q *v1alpha1.QuorateCluster) {
			q.Annotations = map[string]string{v1alpha1.AnnotationHandsOff: "recovery"}
		}, true},
		"hands on again": {func(q *v1alpha1.QuorateCluster) { q.Annotations = nil }, true},
		"a deletion": {func(q *v1alpha1.QuorateCluster) {
			now := metav1.Now()
			q.DeletionTimestamp = &now
		}, true},
	} {
		was := &v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Name: "orders", Generation: 1, ResourceVersion: "1"}}
		if what == "hands on again" {
			was.Annotations = map[string]string{v1alpha1.AnnotationHandsOff: "recovery"}
		}
		is := was.DeepCopy()
		is.ResourceVersion = "2"
		c.change(is)
		if got := due().Update(event.UpdateEvent{ObjectOld: was, ObjectNew: is}); got != c.due {
			t.Errorf("%s has changed: a look is due: %v", what, got)
		}
	}
	q := &v1alpha1.QuorateCluster{}
	if !due().Create(event.CreateEvent{Object: q}) || !due().Delete(event.DeleteEvent{Object: q}) {
		t.Error("no look is due at an object that comes or goes")
	}
}
