package cluster

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/broker"
	"github.com/quorate/quorate/cmd/operator/chart"
)

// What the API server has recorded of a StatefulSet says who has set the image. Other fields may be anybody's.
func TestImageOfOthers(t *testing.T) {
	const (
		image    = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"node\"}":{".":{},"f:image":{},"f:name":{}}}}}}}`
		restart  = `{"f:spec":{"f:template":{"f:metadata":{"f:annotations":{"f:kubectl.kubernetes.io/restartedAt":{}}}}}}`
		replicas = `{"f:spec":{"f:replicas":{}}}`
		beside   = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"other\"}":{"f:image":{}}}}}}}`
	)
	of := func(manager, fields string) metav1.ManagedFieldsEntry {
		f := &metav1.FieldsV1{}
		f.SetRawString(fields)
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: f}
	}
	own := v1alpha1.FieldManager
	for what, c := range map[string]struct {
		fields []metav1.ManagedFieldsEntry
		is     bool
	}{
		"no record":            {nil, false},
		"its own":              {[]metav1.ManagedFieldsEntry{of(own, image)}, false},
		"restarted by a hand":  {[]metav1.ManagedFieldsEntry{of(own, image), of("kubectl-rollout", restart)}, false},
		"scaled by a hand":     {[]metav1.ManagedFieldsEntry{of("kubectl", replicas), of(own, image)}, false},
		"set by both":          {[]metav1.ManagedFieldsEntry{of(own, image), of("kubectl-set", image)}, false},
		"set by somebody else": {[]metav1.ManagedFieldsEntry{of(own, replicas), of("kubectl-set", image)}, true},
		"taken away":           {[]metav1.ManagedFieldsEntry{of(own, beside)}, true},
		"unreadable":           {[]metav1.ManagedFieldsEntry{of(own, `{`)}, true},
		"none":                 {[]metav1.ManagedFieldsEntry{{Manager: own}}, true},
	} {
		x := &turn{objects: &chart.Objects{Config: &corev1.ConfigMap{}}, set: &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
			ManagedFields: c.fields, Annotations: map[string]string{chart.AnnotationTemplate: "t"},
		}}}
		if got := x.given() == ""; got != c.is {
			t.Errorf("%s: the image is somebody else's: %v", what, got)
		}
		if x.objects.Config = nil; x.given() != "t" {
			t.Errorf("%s: an image is put back that the specification does not have", what)
		}
	}
}

// An image that somebody else has set in the StatefulSet is put back, once, before a pod gets it.
func TestImageIsPutBack(t *testing.T) {
	c, ctx := api(t), t.Context()
	q := &v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders"}}
	if err := c.Create(ctx, q); err != nil {
		t.Fatal(err)
	}
	charts, err := chart.Load()
	if err != nil {
		t.Fatal(err)
	}
	pool := broker.NewPool(c)
	t.Cleanup(pool.Close)
	r := &Reconciler{Client: c, Pool: pool, Chart: charts, Events: events.NewFakeRecorder(100)}
	turn := func() (set appsv1.StatefulSet) {
		t.Helper()
		if _, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: kube.ObjectKeyFromObject(q)}); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(ctx, kube.ObjectKeyFromObject(q), &set); err != nil {
			t.Fatal(err)
		}
		set.Status = appsv1.StatefulSetStatus{ObservedGeneration: set.Generation, UpdateRevision: "1"} // no controller runs here
		if err := c.Status().Update(ctx, &set); err != nil {
			t.Fatal(err)
		}
		return set
	}
	turn()
	set := turn()
	image, generation := imageOf(&set), set.Generation
	before := set.DeepCopy()
	set.Spec.Template.Spec.Containers[0].Image = "quorate/quorate:of-others"
	if err := c.Patch(ctx, &set, kube.StrategicMergeFrom(before), kube.FieldOwner("kubectl-set")); err != nil {
		t.Fatal(err)
	}
	set.Status.ObservedGeneration = set.Generation
	if err := c.Status().Update(ctx, &set); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		set = turn()
	}
	if imageOf(&set) != image || set.Generation != generation+2 {
		t.Errorf("the image is %s, want %s; generation %d of before %d", imageOf(&set), image, set.Generation, generation)
	}
}
