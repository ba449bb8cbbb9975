package chart

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

// certificateKind is cert-manager's.
const certificateKind = "Certificate"

// Optional names the objects that a specification can switch on and off, for so many nodes: all that Render may put into
// Others for one specification and not for another. They have a kind and a name, and nothing else.
func Optional(q *v1alpha1.QuorateCluster, replicas int32) []*unstructured.Unstructured {
	monitoring := schema.GroupVersion{Group: "monitoring.coreos.com", Version: "v1"}
	all := []*unstructured.Unstructured{
		named(q, schema.GroupVersion{Group: "networking.k8s.io", Version: "v1"}, "NetworkPolicy", q.Name),
		named(q, monitoring, "PodMonitor", q.Name),
		named(q, monitoring, "ServiceMonitor", q.Name),
		named(q, monitoring, "PrometheusRule", q.Name),
		named(q, schema.GroupVersion{Version: "v1"}, "ConfigMap", q.Name+"-dashboard"),
	}
	if q.Spec.TLS == nil { // it cannot be switched on and off
		return all
	}
	for i := range replicas {
		all = append(all, PeerCertificate(q, i))
	}
	return append(all, certificate(q, q.Name+"-client-tls"))
}

// PeerCertificate names the Certificate of a node for other nodes.
func PeerCertificate(q *v1alpha1.QuorateCluster, node int32) *unstructured.Unstructured {
	return certificate(q, fmt.Sprintf("%s-%d-peer-tls", q.Name, node))
}

func certificate(q *v1alpha1.QuorateCluster, name string) *unstructured.Unstructured {
	return named(q, schema.GroupVersion{Group: "cert-manager.io", Version: "v1"}, certificateKind, name)
}

// named is an object by its name alone.
func named(q *v1alpha1.QuorateCluster, version schema.GroupVersion, kind, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(version.WithKind(kind))
	u.SetNamespace(q.Namespace)
	u.SetName(name)
	return u
}
