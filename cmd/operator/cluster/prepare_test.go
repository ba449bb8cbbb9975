package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/broker"
	"github.com/quorate/quorate/cmd/operator/chart"
)

// orders is a cluster of one node over an API server in memory, in which no pod ever runs.
type orders struct {
	t    *testing.T
	kube kube.WithWatch
	r    *Reconciler
}

func newOrders(t *testing.T, there ...kube.Object) *orders {
	t.Helper()
	q := &v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders", UID: "u1"}}
	q.Spec.Replicas, q.Spec.Storage.Size = 1, "1Gi"
	c := inMemory(t, append(there, q)...)
	charts, err := chart.Load()
	if err != nil {
		t.Fatal(err)
	}
	pool := broker.NewPool(c)
	t.Cleanup(pool.Close)
	return &orders{t, c, &Reconciler{Client: c, Pool: pool, Chart: charts, Events: events.NewFakeRecorder(100)}}
}

// inMemory returns an API server in memory with some objects.
func inMemory(t *testing.T, there ...kube.Object) kube.WithWatch {
	t.Helper()
	s := runtime.NewScheme()
	if err := kubescheme.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	involved := func(o kube.Object) []string {
		e, _ := o.(*corev1.Event) // nothing else is indexed by it
		return []string{string(e.InvolvedObject.UID)}
	}
	return fake.NewClientBuilder().WithScheme(s).WithObjects(there...).WithIndex(&corev1.Event{}, fieldInvolved, involved).
		WithStatusSubresource(&v1alpha1.QuorateCluster{}, &appsv1.StatefulSet{}, &corev1.Pod{}, &policyv1.PodDisruptionBudget{}).
		WithInterceptorFuncs(interceptor.Funcs{Apply: applied}).Build()
}

// applied creates or replaces an object: the API server in memory cannot merge all kinds.
func applied(ctx context.Context, c kube.WithWatch, config runtime.ApplyConfiguration, _ ...kube.ApplyOption) error {
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	var u, there unstructured.Unstructured
	if err := u.UnmarshalJSON(text); err != nil {
		return err
	}
	there.SetGroupVersionKind(u.GroupVersionKind())
	if err := c.Get(ctx, kube.ObjectKeyFromObject(&u), &there); apierrors.IsNotFound(err) {
		return c.Create(ctx, &u)
	} else if err != nil {
		return err
	}
	u.SetResourceVersion(there.GetResourceVersion())
	return c.Update(ctx, &u)
}

// pass lets the operator make a pass, and returns why it may not make what the cluster needs; "": it may.
func (o *orders) pass() string {
	o.t.Helper()
	name := types.NamespacedName{Namespace: "shop", Name: "orders"}
	if _, err := o.r.Reconcile(o.t.Context(), ctrl.Request{NamespacedName: name}); err != nil {
		o.t.Fatal(err)
	}
	var q v1alpha1.QuorateCluster
	if err := o.kube.Get(o.t.Context(), name, &q); err != nil {
		o.t.Fatal(err)
	}
	c := meta.FindStatusCondition(q.Status.Conditions, v1alpha1.ConditionObjectsBlocked)
	if c == nil {
		return ""
	}
	if !meta.IsStatusConditionTrue(q.Status.Conditions, v1alpha1.ConditionDegraded) {
		o.t.Errorf("a person is needed, and it is not degraded: %+v", q.Status.Conditions)
	}
	return c.Reason + ": " + c.Message
}

// get reports whether an object is there.
func (o *orders) get(name string, into kube.Object) bool {
	o.t.Helper()
	err := o.kube.Get(o.t.Context(), types.NamespacedName{Namespace: "shop", Name: name}, into)
	if err != nil && !apierrors.IsNotFound(err) {
		o.t.Fatal(err)
	}
	return err == nil
}

// An object of a name that the cluster needs, and that somebody else has made, stays as it is. One that the operator has
// made for a cluster of this name, and that lost its owner, is taken up again.
func TestObjectsOfOthers(t *testing.T) {
	foreign := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders", Labels: map[string]string{
		"app.kubernetes.io/managed-by": "Helm", instanceLabel: "orders",
	}}}
	foreign.Spec.Ports = []corev1.ServicePort{{Port: 1}}
	o := newOrders(t, foreign)
	if why := o.pass(); !strings.HasPrefix(why, reasonObjectTaken) || !strings.Contains(why, `Service "orders"`) {
		t.Errorf("blocked: %q", why)
	}
	var s corev1.Service
	if !o.get("orders", &s) || len(s.OwnerReferences) > 0 || len(s.Spec.Ports) != 1 || s.Spec.Ports[0].Port != 1 {
		t.Errorf("the service of somebody else is %+v", s)
	}
	if o.get("orders", &appsv1.StatefulSet{}) {
		t.Error("the cluster is made although its service cannot be")
	}
	s.Labels["app.kubernetes.io/managed-by"] = v1alpha1.FieldManager
	if err := o.kube.Update(t.Context(), &s); err != nil {
		t.Fatal(err)
	}
	if why := o.pass(); why != "" {
		t.Errorf("what the operator left is not taken up: %s", why)
	}
	if !o.get("orders", &s) || len(s.OwnerReferences) != 1 || !o.get("orders", &appsv1.StatefulSet{}) {
		t.Errorf("the cluster is not made; its service is %+v", s)
	}
}

// A StatefulSet of somebody else, such as a release of Helm of the same name, is left alone with all that is its own: also
// when the object goes with its data, and when an earlier operator had begun to look after it.
func TestStatefulSetOfOthers(t *testing.T) {
	for _, begun := range []bool{false, true} {
		labels := broker.Labels(&v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Name: "orders"}})
		labels["app.kubernetes.io/managed-by"] = "Helm"
		three := int32(3) // of five: somebody has scaled it down
		foreign := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders", Labels: labels}}
		foreign.Spec.Replicas, foreign.Status.UpdateRevision = &three, "1"
		there := []kube.Object{foreign}
		for i := range 5 {
			there = append(there, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("data-orders-", i), Labels: labels}})
		}
		o, recorder := newOrders(t, there...), events.NewFakeRecorder(100)
		o.r.Events = recorder
		var q v1alpha1.QuorateCluster
		o.get("orders", &q)
		q.Spec.Deletion = v1alpha1.VolumeDeletionDelete
		if begun {
			q.Finalizers = []string{finalizer}
		}
		if err := o.kube.Update(t.Context(), &q); err != nil {
			t.Fatal(err)
		}
		if why := o.pass(); !strings.HasPrefix(why, reasonObjectTaken) || !strings.Contains(why, `StatefulSet "orders"`) {
			t.Errorf("blocked: %q", why)
		}
		if o.get("orders", &corev1.Service{}) || o.get("orders-gossip", &corev1.Secret{}) {
			t.Error("something is made beside what is somebody else's")
		}
		if err := o.kube.Delete(t.Context(), &q); err != nil {
			t.Fatal(err)
		}
		if _, err := o.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: kube.ObjectKeyFromObject(&q)}); err != nil {
			t.Fatal(err)
		}
		if o.get("orders", &q) {
			t.Error("the object stays")
		}
		var claims corev1.PersistentVolumeClaimList
		if err := o.kube.List(t.Context(), &claims); err != nil || len(claims.Items) != 5 {
			t.Errorf("begun %v: of five claims %d are left, %v", begun, len(claims.Items), err)
		}
		if !o.get("orders", foreign) || *foreign.Spec.Replicas != 3 {
			t.Errorf("begun %v: the StatefulSet is %+v", begun, foreign.Spec)
		}
		said := ""
		for len(recorder.Events) > 0 {
			said += <-recorder.Events + "\n"
		}
		if strings.Contains(said, "ClaimsKept") != begun || strings.Count(said, "\n") > 1 {
			t.Errorf("begun %v: the events are %q", begun, said)
		}
	}
}

// The gossip key of a cluster that has nodes, or their volumes, is never replaced by another one.
func TestGossipKeyIsLost(t *testing.T) {
	o := newOrders(t)
	var key, again corev1.Secret
	if why := o.pass(); why != "" || !o.get("orders-gossip", &key) || !o.get("orders", &appsv1.StatefulSet{}) {
		t.Fatalf("the cluster is not made: %s", why)
	}
	lost := func(what string) {
		t.Helper()
		if why := o.pass(); !strings.HasPrefix(why, reasonSecretLost) || !strings.Contains(why, `"orders-gossip"`) || o.get("orders-gossip", &again) {
			t.Errorf("%s: blocked: %q", what, why)
		}
	}
	if err := o.kube.Delete(t.Context(), &key); err != nil {
		t.Fatal(err)
	}
	lost("with its StatefulSet")
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "data-orders-0", Labels: broker.Labels(&v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Name: "orders"}}),
	}}
	if err := o.kube.Delete(t.Context(), &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}}); err != nil {
		t.Fatal(err)
	}
	if err := o.kube.Create(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	lost("with a volume")
	key.ResourceVersion, key.UID = "", ""
	if err := o.kube.Create(t.Context(), &key); err != nil {
		t.Fatal(err)
	}
	if why := o.pass(); why != "" || !o.get("orders", &appsv1.StatefulSet{}) {
		t.Errorf("the key is there again, and the cluster does not go on: %s", why)
	}
}

// With the data of a cluster only those Secrets go that were made for it.
func TestSecretsOfOthersStay(t *testing.T) {
	secret := func(name, instance string) kube.Object {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, Labels: map[string]string{instanceLabel: instance}, Annotations: map[string]string{madeBy: "u"},
		}}
	}
	o := newOrders(t, secret("orders-gossip", "orders"), secret("orders-operator", "other"), secret("a-operator", "a"))
	q := &v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}}
	for _, named := range []string{"", "a-operator"} {
		q.Spec.Secrets.Administrator = named
		if err := o.r.deleteData(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	for name, stays := range map[string]bool{"orders-gossip": false, "orders-operator": true, "a-operator": true} {
		if is := o.get(name, &corev1.Secret{}); is != stays {
			t.Errorf("Secret %q is there: %v", name, is)
		}
	}
}

// The finalizer comes and goes by patches: an update would drop the fields that this operator does not know.
func TestFinalizerByPatch(t *testing.T) {
	o := newOrders(t)
	o.r.Client = interceptor.NewClient(o.kube, interceptor.Funcs{
		Update: func(_ context.Context, _ kube.WithWatch, updated kube.Object, _ ...kube.UpdateOption) error {
			return fmt.Errorf("%T %q is updated as a whole", updated, updated.GetName())
		},
	})
	if why := o.pass(); why != "" {
		t.Fatal(why)
	}
	var q v1alpha1.QuorateCluster
	if o.get("orders", &q); !controllerutil.ContainsFinalizer(&q, finalizer) {
		t.Errorf("the finalizers are %q", q.Finalizers)
	}
	if err := o.kube.Delete(t.Context(), &q); err != nil {
		t.Fatal(err)
	}
	if _, err := o.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: kube.ObjectKeyFromObject(&q)}); err != nil {
		t.Fatal(err)
	}
	if o.get("orders", &q) {
		t.Errorf("the object stays, with the finalizers %q", q.Finalizers)
	}
}
