// Package metrics has the operator's own figures, beside those of controller-runtime: how many objects have which
// conditions, how often reconciling one ended in an error, and when each cluster last answered.
// docs/kubernetes-operator.md explains each.
//
// The labels are bounded: kinds, conditions and reasons are the operator's own words, or Kubernetes' for failed jobs; of
// clusters there is a series for each. No label has a name that users choose for anything but a cluster.
package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

// namespace begins all names.
const namespace = "quorate_operator"

// collectTimeout bounds the reading of all objects for one scrape. They come from caches.
const collectTimeout = 5 * time.Second

// Reasons of errors that are not the reason of a condition.
const (
	// ReasonKubernetes: an object of Kubernetes could not be read or written.
	ReasonKubernetes = "KubernetesFailed"
	// ReasonUnreachable: the broker of a cluster could not be asked.
	ReasonUnreachable = "Unreachable"
)

// KindCluster and KindRebalance are kinds whose errors are counted, beside those of package topology.
const (
	KindCluster   = "QuorateCluster"
	KindRebalance = "QuorateRebalance"
)

// Metrics is a collector. All methods may be called concurrently, and on nil, which records nothing.
type Metrics struct {
	read    kube.Reader
	elected <-chan struct{}
	errors  *prometheus.CounterVec

	objects, conditions, age *prometheus.Desc

	mu    sync.Mutex                         // guards what follows
	looks map[types.NamespacedName]time.Time // when a cluster answered last; while it never did, when it was first looked at
}

// New returns metrics of the objects that read finds. Of several operators only the one whose elected is closed counts
// them, so that a sum is right.
func New(read kube.Reader, elected <-chan struct{}) *Metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
	}
	return &Metrics{
		read: read, elected: elected, looks: map[types.NamespacedName]time.Time{},
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "reconcile_errors_total",
			Help: "Looks at an object after which it was not as it should be, by the kind of the object and the reason.",
		}, []string{"kind", "reason"}),
		objects:    desc("objects", "Objects that there are, by kind.", "kind"),
		conditions: desc("object_conditions", "Objects that have a condition, by kind, and by the condition's type, status and reason.", "kind", "condition", "status", "reason"),
		age:        desc("cluster_look_age_seconds", "Seconds since the broker of a cluster last answered a look, or since the operator first looked.", "namespace", "cluster"),
	}
}

// Failed counts a reconciliation of an object of a kind that ended otherwise than wanted.
func (m *Metrics) Failed(kind, reason string) {
	if m != nil {
		m.errors.WithLabelValues(kind, reason).Inc()
	}
}

// Looked records a reconciliation of a cluster, and whether its broker answered.
func (m *Metrics) Looked(cluster types.NamespacedName, answered bool) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.looks[cluster]; answered || !known {
		m.looks[cluster] = time.Now()
	}
}

// Forget drops a cluster that is gone.
func (m *Metrics) Forget(cluster types.NamespacedName) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.looks, cluster)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	m.errors.Describe(out)
	out <- m.objects
	out <- m.conditions
	out <- m.age
}

// Collect implements prometheus.Collector. Objects that cannot be read are left out.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.errors.Collect(out)
	m.collectLooks(out)
	select {
	case <-m.elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	for kind, list := range lists() {
		// The objects are only read, so no copies are needed: there may be ten thousand.
		if err := m.read.List(ctx, list, kube.UnsafeDisableDeepCopy); err == nil {
			m.collectKind(out, kind, list)
		}
	}
}

// lists has an empty list of each kind.
func lists() map[string]kube.ObjectList {
	return map[string]kube.ObjectList{
		KindCluster: &v1alpha1.QuorateClusterList{}, KindRebalance: &v1alpha1.QuorateRebalanceList{},
		"QuorateQueue": &v1alpha1.QuorateQueueList{}, "QuorateExchange": &v1alpha1.QuorateExchangeList{}, "QuorateBinding": &v1alpha1.QuorateBindingList{},
		"QuoratePolicy": &v1alpha1.QuoratePolicyList{}, "QuorateUser": &v1alpha1.QuorateUserList{}, "QuoratePermission": &v1alpha1.QuoratePermissionList{},
	}
}

// has is a condition as it is counted.
type has struct{ condition, status, reason string }

// collectKind counts the objects of a kind and their conditions.
func (m *Metrics) collectKind(out chan<- prometheus.Metric, kind string, list kube.ObjectList) {
	all, counts := 0, map[has]int{}
	_ = meta.EachListItem(list, func(o runtime.Object) error { // the function never fails
		all++
		for _, c := range conditionsOf(o) {
			counts[has{c.Type, string(c.Status), c.Reason}]++
		}
		return nil
	})
	out <- prometheus.MustNewConstMetric(m.objects, prometheus.GaugeValue, float64(all), kind)
	for c, n := range counts {
		out <- prometheus.MustNewConstMetric(m.conditions, prometheus.GaugeValue, float64(n), kind, c.condition, c.status, c.reason)
	}
}

// conditionsOf returns the conditions of an object of any kind.
func conditionsOf(o runtime.Object) []metav1.Condition {
	switch o := o.(type) {
	case *v1alpha1.QuorateCluster:
		return o.Status.Conditions
	case *v1alpha1.QuorateRebalance:
		return o.Status.Conditions
	case interface {
		Common() *v1alpha1.TopologyStatus
	}:
		return o.Common().Conditions
	}
	return nil
}

// collectLooks collects how long ago each cluster answered.
func (m *Metrics) collectLooks(out chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c, at := range m.looks {
		out <- prometheus.MustNewConstMetric(m.age, prometheus.GaugeValue, time.Since(at).Seconds(), c.Namespace, c.Name)
	}
}
