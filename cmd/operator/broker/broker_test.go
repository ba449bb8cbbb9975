package broker

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/scope"
)

// A rebalance moves queues of the whole cluster: objects of the cluster's own namespace ask for it, and those of a namespace
// that may make administrators.
func TestForWhom(t *testing.T) {
	s := runtime.NewScheme()
	if err := errors.Join(kubescheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, namespace string
		entries         []v1alpha1.NamespaceScope
		want            string // reason; NoNodes: it is allowed, and there is nobody to ask
	}{
		{"its own namespace", "shop", nil, "NoNodes"},
		{"another one", "team", nil, scope.NamespaceNotAllowed},
		{"one that is allowed a vhost", "team", []v1alpha1.NamespaceScope{{Namespace: "team", VHosts: []string{"*"}, Tags: []string{"monitoring"}}}, scope.AdministratorOnly},
		{"one that may make administrators", "team", []v1alpha1.NamespaceScope{{Namespace: "team", Tags: []string{catalog.TagAdministrator}}}, "NoNodes"},
	} {
		q := &v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "main"}}
		q.Spec.Topology.AllowedNamespaces = c.entries
		p := NewPool(fake.NewClientBuilder().WithScheme(s).WithObjects(q).Build())
		_, err := p.For(t.Context(), c.namespace, v1alpha1.ClusterReference{Namespace: "shop", Name: "main"})
		var not *NotReadyError
		if !errors.As(err, &not) || not.Reason != c.want {
			t.Errorf("%s: %v, want %s", c.what, err, c.want)
		}
		p.Close()
	}
}
