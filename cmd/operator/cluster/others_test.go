package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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
		x := &pass{objects: &chart.Objects{Config: &corev1.ConfigMap{}}, set: &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
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

// recording returns an API server that records whose fields are.
func recording(t *testing.T) kube.Client {
	t.Helper()
	if os.Getenv(assets) != "" {
		return api(t)
	}
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubescheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(s).WithReturnManagedFields().WithStatusSubresource(&v1alpha1.QuorateCluster{}, &appsv1.StatefulSet{}).
		WithInterceptorFuncs(interceptor.Funcs{Apply: func(ctx context.Context, c kube.WithWatch, config runtime.ApplyConfiguration, options ...kube.ApplyOption) error {
			text, err := json.Marshal(config)
			var of metav1.TypeMeta
			if err = errors.Join(err, json.Unmarshal(text, &of)); err != nil {
				return err
			}
			if of.Kind != kindSet { // of which it cannot merge all
				return applied(ctx, c, config)
			}
			return c.Apply(ctx, config, options...)
		}}).Build()
}

// An image that somebody else has set in the StatefulSet is put back, once, before a pod gets it.
func TestImageIsPutBack(t *testing.T) {
	c, ctx := recording(t), t.Context()
	q := &v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders"}}
	q.Spec.Replicas, q.Spec.Storage.Size = 1, "1Gi"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Create(ctx, q))
	charts, err := chart.Load()
	must(err)
	pool := broker.NewPool(c)
	t.Cleanup(pool.Close)
	recorder := events.NewFakeRecorder(100)
	r := &Reconciler{Client: c, Pool: pool, Chart: charts, Events: recorder}
	var set appsv1.StatefulSet
	seen := func() { // by its controller, which does not run here
		t.Helper()
		set.Status.ObservedGeneration, set.Status.UpdateRevision = set.Generation, "1"
		must(c.Status().Update(ctx, &set))
	}
	pass := func() {
		t.Helper()
		_, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: kube.ObjectKeyFromObject(q)})
		must(err)
		must(c.Get(ctx, kube.ObjectKeyFromObject(q), &set))
		seen()
	}
	pass()
	pass()
	image, before := imageOf(&set), set.DeepCopy()
	set.Spec.Template.Spec.Containers[0].Image = "quorate/quorate:of-others"
	must(c.Patch(ctx, &set, kube.StrategicMergeFrom(before), kube.FieldOwner("kubectl-set")))
	seen()
	for range 3 {
		pass()
	}
	changes := 0
	for len(recorder.Events) > 0 {
		if strings.Contains(<-recorder.Events, ChangeSet.String()) {
			changes++
		}
	}
	if imageOf(&set) != image || changes != 1 {
		t.Errorf("the image is %s, want %s; the template was changed %d times", imageOf(&set), image, changes)
	}
}
