package scope

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

// shared is a cluster with entries for other namespaces.
func shared(entries ...v1alpha1.NamespaceScope) *v1alpha1.QuorateCluster {
	return &v1alpha1.QuorateCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "main"},
		Spec:       v1alpha1.QuorateClusterSpec{Topology: v1alpha1.TopologySpec{AllowedNamespaces: entries}},
	}
}

// Objects of another namespace may describe what its entry names, and nothing else.
func TestCheck(t *testing.T) {
	bare := v1alpha1.NamespaceScope{Namespace: "team"}
	team := v1alpha1.NamespaceScope{Namespace: "team", VHosts: []string{"orders", "team-*"}, Users: []string{"orders-*", "report"}, Tags: []string{"management"}}
	boss := v1alpha1.NamespaceScope{Namespace: "team", VHosts: []string{"*"}, Users: []string{"*"}, Tags: []string{catalog.TagAdministrator}}
	rest := v1alpha1.NamespaceScope{Namespace: "*", VHosts: []string{"sandbox"}}
	own := v1alpha1.NamespaceScope{Namespace: "platform", VHosts: []string{"orders"}}
	root, orders := Demand{VHost: "/"}, Demand{VHost: "orders"}
	administrator := Demand{User: "orders-app", Tags: []string{catalog.TagAdministrator, "management", "monitoring"}}
	ceiling := Demand{VHost: "orders", OperatorPolicy: true}
	for _, c := range []struct {
		what, namespace string
		entries         []v1alpha1.NamespaceScope
		demand          Demand
		want            string // reasons
	}{
		{"the cluster's own namespace", "platform", nil, administrator, ""},
		{"its operator policies", "platform", []v1alpha1.NamespaceScope{team, rest}, ceiling, ""},
		{"its rebalances", "platform", []v1alpha1.NamespaceScope{rest}, Demand{Rebalance: true}, ""},
		{"an entry for it", "platform", []v1alpha1.NamespaceScope{own}, root, VHostNotAllowed},
		{"no entry", "team", nil, orders, NamespaceNotAllowed},
		{"an entry for another one", "tea", []v1alpha1.NamespaceScope{team}, orders, NamespaceNotAllowed},
		{"a bare entry, a vhost", "team", []v1alpha1.NamespaceScope{bare}, root, VHostNotAllowed},
		{"a bare entry, a user", "team", []v1alpha1.NamespaceScope{bare}, Demand{User: "team"}, UserNotAllowed},
		{"a vhost that is named", "team", []v1alpha1.NamespaceScope{team}, orders, ""},
		{"another vhost", "team", []v1alpha1.NamespaceScope{team}, root, VHostNotAllowed},
		{"a longer name", "team", []v1alpha1.NamespaceScope{team}, Demand{VHost: "orders2"}, VHostNotAllowed},
		{"a beginning", "team", []v1alpha1.NamespaceScope{team}, Demand{VHost: "team-a"}, ""},
		{"a shorter name", "team", []v1alpha1.NamespaceScope{team}, Demand{VHost: "team"}, VHostNotAllowed},
		{"a user", "team", []v1alpha1.NamespaceScope{team}, Demand{User: "orders-app", Tags: []string{"management"}}, ""},
		{"somebody else's user", "team", []v1alpha1.NamespaceScope{team}, Demand{User: "ops"}, UserNotAllowed},
		{"an administrator", "team", []v1alpha1.NamespaceScope{team}, administrator, TagNotAllowed + " " + TagNotAllowed},
		{"all at once", "team", []v1alpha1.NamespaceScope{team}, Demand{User: "ops", Tags: []string{catalog.TagAdministrator}}, UserNotAllowed + " " + TagNotAllowed},
		{"an operator policy", "team", []v1alpha1.NamespaceScope{team}, ceiling, AdministratorOnly},
		{"a rebalance", "team", []v1alpha1.NamespaceScope{team}, Demand{Rebalance: true}, AdministratorOnly},
		{"an administrator where that is allowed", "team", []v1alpha1.NamespaceScope{boss}, Demand{User: "x", Tags: []string{catalog.TagAdministrator}}, ""},
		{"a tag beside it", "team", []v1alpha1.NamespaceScope{boss}, Demand{User: "x", Tags: []string{"monitoring"}}, TagNotAllowed},
		{"its operator policy", "team", []v1alpha1.NamespaceScope{boss}, ceiling, ""},
		{"its rebalance", "team", []v1alpha1.NamespaceScope{boss}, Demand{Rebalance: true}, ""},
		{"the entry for all", "other", []v1alpha1.NamespaceScope{rest, team}, Demand{VHost: "sandbox"}, ""},
		{"no more than that", "other", []v1alpha1.NamespaceScope{rest, team}, orders, VHostNotAllowed},
		{"an own entry before that for all", "team", []v1alpha1.NamespaceScope{rest, team}, Demand{VHost: "sandbox"}, VHostNotAllowed},
	} {
		all := Check(shared(c.entries...), c.namespace, c.demand)
		var reasons []string
		for _, r := range all {
			reasons = append(reasons, r.Reason)
			if !strings.Contains(r.Message, `QuorateCluster "platform/main"`) || !strings.Contains(r.Message, c.namespace) || !strings.Contains(r.Message, "spec.topology.allowedNamespaces") {
				t.Errorf("%s: %s: want the cluster, the namespace and the remedy", c.what, r.Message)
			}
		}
		if got := strings.Join(reasons, " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
		if faults := Faults(all); len(faults) != len(all) {
			t.Errorf("%s: %v", c.what, faults)
		}
	}
}

// The remedy for a rebalance names the cluster's own namespace only where the object is not there already.
func TestRemedyOfRebalance(t *testing.T) {
	c := shared(v1alpha1.NamespaceScope{Namespace: "platform"}, v1alpha1.NamespaceScope{Namespace: "team"})
	for namespace, want := range map[string]bool{"team": true, "platform": false} {
		text := Text(Check(c, namespace, Demand{Rebalance: true}))
		if strings.Contains(text, `make the QuorateRebalance in namespace "platform"`) != want || !strings.Contains(text, `add "administrator" to tags`) {
			t.Errorf("%s: %q", namespace, text)
		}
	}
}
