package cluster

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

// change changes the specification.
func (o *orders) change(how func(*v1alpha1.QuorateClusterSpec)) {
	o.t.Helper()
	var q v1alpha1.QuorateCluster
	o.get("orders", &q)
	how(&q.Spec)
	if err := o.kube.Update(o.t.Context(), &q); err != nil {
		o.t.Fatal(err)
	}
}

// there reports whether an object of another operator's kind is there.
func (o *orders) there(group, kind, name string) bool {
	o.t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind})
	return o.get(name, u)
}

// What is switched off in a specification is deleted, and nothing of somebody else's of the same name.
func TestSwitchedOff(t *testing.T) {
	const monitoring = "monitoring.coreos.com"
	o := newOrders(t)
	are := func(want string) {
		t.Helper()
		if why := o.pass(); why != "" {
			t.Error(why)
		}
		got := fmt.Sprint(o.get("orders", &networkingv1.NetworkPolicy{}), o.there(monitoring, "PodMonitor", "orders"), o.there(monitoring, "ServiceMonitor", "orders"),
			o.there(monitoring, "PrometheusRule", "orders"), o.get("orders-dashboard", &corev1.ConfigMap{}))
		if got != want {
			t.Errorf("policy, pod monitor, service monitor, rules, dashboard: %s, want %s", got, want)
		}
	}
	o.change(func(s *v1alpha1.QuorateClusterSpec) {
		s.Monitoring = v1alpha1.MonitoringSpec{Monitor: "pod", Rules: true, Dashboard: true}
	})
	are("true true false true true")
	o.change(func(s *v1alpha1.QuorateClusterSpec) { s.Monitoring.Monitor, s.Monitoring.Rules = "service", false })
	are("true false true false true")
	o.change(func(s *v1alpha1.QuorateClusterSpec) {
		s.NetworkPolicy.Disabled, s.Monitoring = true, v1alpha1.MonitoringSpec{Monitor: "none"}
	})
	are("false false false false false")
	foreign := &networkingv1.NetworkPolicy{}
	foreign.Namespace, foreign.Name = "shop", "orders"
	if err := o.kube.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	are("true false false false false")
}

// Certificates go when cert-manager is not to issue them any more, and those of nodes that are gone; those of nodes that are
// still there stay.
func TestCertificatesSwitchedOff(t *testing.T) {
	o := newOrders(t)
	are := func(what, want string) {
		t.Helper()
		if why := o.pass(); why != "" {
			t.Error(why)
		}
		got := fmt.Sprint(o.there("cert-manager.io", "Certificate", "orders-client-tls"))
		for i := range 5 {
			got += fmt.Sprint(" ", o.there("cert-manager.io", "Certificate", fmt.Sprintf("orders-%d-peer-tls", i)))
		}
		if got != want {
			t.Errorf("%s: certificates: %s, want %s", what, got, want)
		}
	}
	o.change(func(s *v1alpha1.QuorateClusterSpec) {
		s.Replicas, s.TLS = 3, &v1alpha1.TLSSpec{CertManager: &v1alpha1.CertManagerSpec{
			PeerIssuer: v1alpha1.IssuerReference{Name: "peers"}, ClientIssuer: v1alpha1.IssuerReference{Name: "clients"},
		}}
	})
	are("three nodes", "true true true true false false")
	o.change(func(s *v1alpha1.QuorateClusterSpec) { s.Replicas = 5 })
	are("two more are wanted", "true true true true true true")
	o.change(func(s *v1alpha1.QuorateClusterSpec) { s.Replicas = 1 })
	are("they are not wanted any more, and three are there", "true true true true false false")
	o.change(func(s *v1alpha1.QuorateClusterSpec) { s.TLS.CertManager = nil })
	are("they come from elsewhere", "false false false false false false")
}
