package cluster

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/chart"
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
		x := &pass{q: q, seen: &Seen{Set: c.set, Broker: &Broker{}}}
		x.ready()
		if got := meta.IsStatusConditionTrue(q.Status.Conditions, v1alpha1.ConditionReady); got != c.want {
			t.Errorf("%s: %v, %+v", what, got, q.Status.Conditions)
		}
	}
}

// A pod that is ready serves at once, whatever the operator's clock shows. It counts as ready when it has been so for a while.
func TestServes(t *testing.T) {
	now := time.Now()
	x := &pass{Reconciler: &Reconciler{Now: func() time.Time { return now }}, objects: &chart.Objects{Set: &appsv1.StatefulSet{}}}
	x.objects.Set.Spec.MinReadySeconds = 10
	for since, ready := range map[time.Duration]bool{-time.Minute: true, -time.Second: false, time.Hour: false} {
		pod := &corev1.Pod{}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(since))}}
		if p := x.podOf(pod); !p.Serves || p.Ready != ready {
			t.Errorf("ready since %v: %+v", since, p)
		}
		pod.Status.Conditions[0].Status = corev1.ConditionFalse
		if p := x.podOf(pod); p.Serves || p.Ready {
			t.Errorf("not ready since %v: %+v", since, p)
		}
	}
}

// A pod that does not start needs a person, who reads why. One that waits for its volume at first does not.
func TestStuck(t *testing.T) {
	now := time.Now()
	waiting := func(reason string) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "node", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "back-off"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "starts\nquorate: no key\n"}},
		}}}
	}
	unscheduled := func(since time.Duration) corev1.PodStatus {
		return corev1.PodStatus{Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "no machine", LastTransitionTime: metav1.NewTime(now.Add(-since)),
		}}}
	}
	for what, c := range map[string]struct {
		status corev1.PodStatus
		going  bool
		want   string // "": nothing needs a person
	}{
		"it ends whenever it starts":       {waiting("CrashLoopBackOff"), false, "pod orders-2 does not start: CrashLoopBackOff: back-off; it ended with code 1: quorate: no key"},
		"no machine takes it":              {unscheduled(time.Hour), false, "pod orders-2 does not start: Unschedulable: no machine"},
		"no machine has taken it yet":      {unscheduled(time.Second), false, ""},
		"its container is being made":      {waiting("ContainerCreating"), false, ""},
		"it ends whenever it starts: goes": {waiting("CrashLoopBackOff"), true, ""},
	} {
		x := &pass{Reconciler: &Reconciler{Now: func() time.Time { return now }}, q: &v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Name: "orders"}}}
		p := x.podOf(&corev1.Pod{Status: c.status})
		p.Going = c.going
		x.seen = &Seen{Broker: &Broker{}, Pods: map[int]Pod{0: {Ready: true}, 2: p}}
		x.reportConditions(Step{Do: Wait, Why: "nodes 2 are not ready"}, nil)
		d := meta.FindStatusCondition(x.q.Status.Conditions, v1alpha1.ConditionDegraded)
		if is := d.Reason == "PodsStuck"; is != (c.want != "") || is && d.Message != c.want {
			t.Errorf("%s: Degraded is %+v, want %q", what, d, c.want)
		}
	}
}

// A cluster that was Ready and cannot be looked at is not known to be down. It stays unknown until it is looked at.
func TestNotLookedAt(t *testing.T) {
	x := &pass{q: &v1alpha1.QuorateCluster{}}
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
