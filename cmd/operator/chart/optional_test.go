package chart

import (
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

// What the chart makes for one specification and not for another is what Optional names: else it would stay when it is
// switched off.
func TestOptional(t *testing.T) {
	ids := func(change func(*v1alpha1.QuorateClusterSpec)) map[string]bool {
		out := map[string]bool{}
		for _, u := range render(t, 3, change).Others {
			out[u.GroupVersionKind().String()+" "+u.GetNamespace()+" "+u.GetName()] = true
		}
		return out
	}
	all := map[string]bool{}
	for _, monitor := range []string{"pod", "service"} {
		maps.Copy(all, ids(func(s *v1alpha1.QuorateClusterSpec) {
			s.TLS = &v1alpha1.TLSSpec{CertManager: &v1alpha1.CertManagerSpec{PeerIssuer: v1alpha1.IssuerReference{Name: "p"}, ClientIssuer: v1alpha1.IssuerReference{Name: "c"}}}
			s.Monitoring.Monitor, s.Monitoring.Rules, s.Monitoring.Dashboard = monitor, true, true
		}))
	}
	for id := range ids(func(s *v1alpha1.QuorateClusterSpec) {
		s.TLS, s.NetworkPolicy.Disabled = &v1alpha1.TLSSpec{}, true
	}) {
		if !all[id] {
			t.Errorf("%s goes when other things are switched on", id)
		}
		delete(all, id)
	}
	q := &v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Name: "orders", Namespace: "shop"}}
	q.Spec.TLS = &v1alpha1.TLSSpec{}
	var got []string
	for _, u := range Optional(q, 3) {
		got = append(got, u.GroupVersionKind().String()+" "+u.GetNamespace()+" "+u.GetName())
	}
	if want := slices.Sorted(maps.Keys(all)); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("Optional names %q, want %q", got, want)
	}
}
