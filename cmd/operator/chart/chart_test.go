package chart

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

func render(t *testing.T, replicas int32, change func(*v1alpha1.QuorateClusterSpec)) *Objects {
	t.Helper()
	c, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	q := &v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Name: "orders", Namespace: "shop"}}
	if change != nil {
		change(&q.Spec)
	}
	o, err := c.Render(q, replicas, "operators")
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// An empty specification is what a release of the chart has, by the cluster's name, with the operator's secrets.
func TestRender(t *testing.T) {
	o := render(t, 3, nil)
	kinds := map[string]bool{}
	for _, u := range o.Others {
		kinds[u.GetKind()+"/"+u.GetName()] = true
		if u.GetNamespace() != "shop" || u.GetLabels()[managedBy] != v1alpha1.FieldManager {
			t.Errorf("%s %s has namespace %q and labels %v", u.GetKind(), u.GetName(), u.GetNamespace(), u.GetLabels())
		}
	}
	for _, want := range []string{"Service/orders", "Service/orders-headless", "Service/orders-join", "ServiceAccount/orders", "PodDisruptionBudget/orders", "NetworkPolicy/orders"} {
		if !kinds[want] {
			t.Errorf("%s is missing, there are %v", want, kinds)
		}
	}
	for kind := range kinds {
		if strings.HasPrefix(kind, "Secret/") {
			t.Errorf("%s would be made anew each time", kind)
		}
	}
	if s := o.Set.Spec; o.Set.Name != "orders" || *s.Replicas != 3 || s.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
		t.Errorf("the StatefulSet is %s with %+v", o.Set.Name, s)
	}
	text := o.Config.Data["node.yaml"]
	if !strings.Contains(text, "orders-headless:7072") || !strings.Contains(text, "orders-join:7072") || strings.Contains(text, "finalize") {
		t.Errorf("the nodes' file is\n%s", text)
	}
	for _, e := range o.Set.Spec.Template.Spec.Containers[0].Env {
		if ref := e.ValueFrom; ref != nil && ref.SecretKeyRef != nil && ref.SecretKeyRef.Name != "orders-operator" {
			t.Errorf("%s comes from Secret %q", e.Name, ref.SecretKeyRef.Name)
		}
	}
}

// What concerns a node changes its template, and the name of its file; how many there are does not, with TLS neither.
func TestTemplate(t *testing.T) {
	secure := func(s *v1alpha1.QuorateClusterSpec) { s.TLS = &v1alpha1.TLSSpec{} }
	for name, change := range map[string]func(*v1alpha1.QuorateClusterSpec){"plain": nil, "tls": secure} {
		three, five := render(t, 3, change), render(t, 5, change)
		if three.Set.Annotations[AnnotationTemplate] != five.Set.Annotations[AnnotationTemplate] || three.Config.Name != five.Config.Name {
			t.Errorf("%s: another number of nodes changes the template", name)
		}
	}
	before := render(t, 3, nil)
	for name, change := range map[string]func(*v1alpha1.QuorateClusterSpec){
		"version": func(s *v1alpha1.QuorateClusterSpec) { s.Image.Version = "9.9.9" },
		"config": func(s *v1alpha1.QuorateClusterSpec) {
			s.Config = &apiextensionsv1.JSON{Raw: []byte(`{"log":{"level":"debug"}}`)}
		},
		"memory": func(s *v1alpha1.QuorateClusterSpec) {
			s.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: before.Set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage]}
		},
		"finalize": func(s *v1alpha1.QuorateClusterSpec) { s.Upgrade.Finalize = v1alpha1.Manual },
	} {
		after := render(t, 3, change)
		if before.Set.Annotations[AnnotationTemplate] == after.Set.Annotations[AnnotationTemplate] {
			t.Errorf("a change of %s changes no template", name)
		}
		if settings := name == "config" || name == "finalize"; settings == (before.Config.Name == after.Config.Name) {
			t.Errorf("a change of %s: the file is %q, was %q", name, after.Config.Name, before.Config.Name)
		}
	}
	manual := render(t, 3, func(s *v1alpha1.QuorateClusterSpec) { s.Upgrade.Finalize = v1alpha1.Manual })
	if !strings.Contains(manual.Config.Data["node.yaml"], "finalize: manual") {
		t.Error("the nodes finalise a version by themselves")
	}
}

// Where only some clients may reach the nodes, the operator may too. A setting of a wrong type is refused.
func TestClients(t *testing.T) {
	o := render(t, 3, func(s *v1alpha1.QuorateClusterSpec) {
		s.NetworkPolicy.Clients = []v1alpha1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}}}}
	})
	for _, u := range o.Others {
		text, err := u.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if u.GetKind() == "NetworkPolicy" && (!strings.Contains(string(text), `"kubernetes.io/metadata.name":"operators"`) || !strings.Contains(string(text), `"app":"shop"`)) {
			t.Errorf("the policy is %s", text)
		}
	}
	c, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	q := &v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Name: "orders", Namespace: "shop"}}
	q.Spec.Config = &apiextensionsv1.JSON{Raw: []byte(`[1]`)}
	if _, err := c.Render(q, 3, ""); err == nil || !strings.Contains(err.Error(), "spec.config") {
		t.Errorf("a list of settings: %v", err)
	}
}
