package cluster

import (
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/broker"
)

// annotate marks the cluster's object, or takes the mark away.
func (o *orders) annotate(value string, set bool) {
	o.t.Helper()
	var q v1alpha1.QuorateCluster
	o.get("orders", &q)
	q.Annotations = nil
	if set {
		q.Annotations = map[string]string{v1alpha1.AnnotationHandsOff: value}
	}
	if err := o.kube.Update(o.t.Context(), &q); err != nil {
		o.t.Fatal(err)
	}
}

// replicas of the StatefulSet after a pass. Its controller has taken up each change.
func (o *orders) replicas(to *int32) int32 {
	o.t.Helper()
	var set appsv1.StatefulSet
	o.get("orders", &set)
	if to != nil {
		set.Spec.Replicas = to
		if err := o.kube.Update(o.t.Context(), &set); err != nil {
			o.t.Fatal(err)
		}
	}
	set.Status = appsv1.StatefulSetStatus{ObservedGeneration: set.Generation, UpdateRevision: "1"}
	if err := o.kube.Status().Update(o.t.Context(), &set); err != nil {
		o.t.Fatal(err)
	}
	o.pass()
	o.get("orders", &set)
	return *set.Spec.Replicas
}

// While a person has the operator keep its hands off, nothing is put back that the person has taken away, and the object says
// so. Afterwards it continues.
func TestHandsOff(t *testing.T) {
	o := newOrders(t)
	if why := o.pass(); why != "" {
		t.Fatal(why)
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "data-orders-0", Labels: broker.Labels(&v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Name: "orders"}}),
	}}
	if err := o.kube.Create(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	zero := int32(0)
	for _, value := range []string{"a majority is lost", ""} {
		o.annotate(value, true)
		if err := o.kube.Delete(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}}); err != nil {
			t.Fatal(err)
		}
		if n := o.replicas(&zero); n != 0 {
			t.Errorf("%q: %d replicas are put back", value, n)
		}
		if o.get("orders", &corev1.Service{}) {
			t.Errorf("%q: the service is put back", value)
		}
		var q v1alpha1.QuorateCluster
		o.get("orders", &q)
		if why := blocked(&q, v1alpha1.ConditionHandsOff); !strings.Contains(why, value) || !strings.Contains(why, v1alpha1.AnnotationHandsOff) {
			t.Errorf("HandsOff is %q", why)
		}
		o.annotate("false", value != "")
		if n := o.replicas(nil); n != 1 || !o.get("orders", &corev1.Service{}) {
			t.Errorf("%q is taken away: %d replicas", value, n)
		}
		o.get("orders", &q)
		if why := blocked(&q, v1alpha1.ConditionHandsOff); why != "" {
			t.Errorf("HandsOff is still %q", why)
		}
	}
}

// More nodes than the StatefulSet has are asked for before the cluster is founded, which takes all of them. Once the broker has
// answered it decides, and only then.
func TestMoreNodesBeforeFounding(t *testing.T) {
	o := newOrders(t)
	if why := o.pass(); why != "" {
		t.Fatal(why)
	}
	for _, x := range []struct {
		annotation string
		asked      int32
		want       int32
	}{{"", 3, 3}, {`{"finalized":7}`, 5, 3}} {
		var q v1alpha1.QuorateCluster
		o.get("orders", &q)
		q.Spec.Replicas, q.Annotations = x.asked, map[string]string{annotationVersions: x.annotation}
		if err := o.kube.Update(t.Context(), &q); err != nil {
			t.Fatal(err)
		}
		if n := o.replicas(nil); n != x.want {
			t.Errorf("%d nodes are asked for, known is %q: there are %d replicas, want %d", x.asked, x.annotation, n, x.want)
		}
	}
}

// The runbook has the annotation and the condition by their names.
func TestHandsOffInRunbook(t *testing.T) {
	text, err := os.ReadFile("../../../docs/runbooks/lost-majority.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{v1alpha1.AnnotationHandsOff + "=", v1alpha1.AnnotationHandsOff + "-", "--for=condition=" + v1alpha1.ConditionHandsOff} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the runbook lacks %q", want)
		}
	}
}
