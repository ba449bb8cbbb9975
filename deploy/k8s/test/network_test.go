package k8s

import (
	"fmt"
	"maps"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// Clients reach gRPC and AMQP from anywhere, ports between nodes are for nodes alone, and metrics
// and the management API for the namespace that gathers them.
func TestNetworkPolicy(t *testing.T) {
	each(t, func(t *testing.T, o *objects) {
		p := o.policy.Spec
		if !selects(t, &p.PodSelector, o.set.Spec.Template.Labels) {
			t.Errorf("podSelector %v does not select the pods", p.PodSelector)
		}
		open := map[string]string{}
		for _, rule := range p.Ingress {
			for _, port := range rule.Ports {
				open[port.Port.StrVal+"/"+string(protocolOf(protocol(port.Protocol)))] = whom(t, o, rule.From)
			}
		}
		want := map[string]string{
			"grpc/TCP": "all", "amqp/TCP": "all", "http/TCP": "monitoring", "management/TCP": "monitoring",
			"peer/TCP": "nodes", "gossip-tcp/TCP": "nodes", "gossip-udp/UDP": "nodes",
		}
		if !maps.Equal(open, want) {
			t.Errorf("ports are open to %v, want %v", open, want)
		}
		for _, port := range o.services["quorate"].Spec.Ports {
			whom := open[port.TargetPort.StrVal+"/"+string(protocolOf(port.Protocol))]
			if whom != "all" && port.Name != "management" {
				t.Errorf("the Service offers %s, which the policy does not let in", port.Name)
			}
		}
		for _, port := range node(t, o).Ports {
			if open[port.Name+"/"+string(protocolOf(port.Protocol))] == "" {
				t.Errorf("the container has the port %s, which the policy does not name", port.Name)
			}
		}
	})
}

// whom names those whom a rule lets in.
func whom(t *testing.T, o *objects, from []networkingv1.NetworkPolicyPeer) string {
	t.Helper()
	switch {
	case len(from) == 0:
		return "all"
	case len(from) > 1 || from[0].IPBlock != nil:
	case from[0].NamespaceSelector == nil && selects(t, from[0].PodSelector, o.set.Spec.Template.Labels):
		return "nodes"
	case from[0].PodSelector == nil && selects(t, from[0].NamespaceSelector, map[string]string{corev1.LabelMetadataName: "monitoring"}):
		return "monitoring"
	}
	return fmt.Sprint(from)
}

func protocol(p *corev1.Protocol) corev1.Protocol {
	if p == nil {
		return ""
	}
	return *p
}

// The port of clients can be closed to all but some.
func TestClientsOfThePolicy(t *testing.T) {
	peer := map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"team": "shop"}}}
	o := buildChart(t, "quorate", chartutil.Values{"networkPolicy": map[string]any{"clients": []any{peer}}})
	rule := o.policy.Spec.Ingress[0]
	if rule.Ports[0].Port.StrVal != "grpc" || len(rule.From) != 1 || rule.From[0].NamespaceSelector.MatchLabels["team"] != "shop" {
		t.Errorf("the rule is %+v", rule)
	}
}
