package metrics

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

// there finds objects of three kinds.
func there(t *testing.T) kube.WithWatch {
	t.Helper()
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "shop", Name: name} }
	ready := func(reason string, status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: "Ready", Status: status, Reason: reason}}
	}
	return fake.NewClientBuilder().WithScheme(s).WithObjects(
		&v1alpha1.QuorateCluster{ObjectMeta: named("main"), Status: v1alpha1.QuorateClusterStatus{Conditions: ready("Serving", "True")}},
		&v1alpha1.QuorateQueue{ObjectMeta: named("a"), Status: v1alpha1.QuorateQueueStatus{TopologyStatus: v1alpha1.TopologyStatus{Conditions: ready("InBroker", "True")}}},
		&v1alpha1.QuorateQueue{ObjectMeta: named("b"), Status: v1alpha1.QuorateQueueStatus{TopologyStatus: v1alpha1.TopologyStatus{Conditions: ready("InBroker", "True")}}},
		&v1alpha1.QuorateQueue{ObjectMeta: named("c"), Status: v1alpha1.QuorateQueueStatus{TopologyStatus: v1alpha1.TopologyStatus{Conditions: ready("Drifted", "False")}}},
		&v1alpha1.QuorateQueue{ObjectMeta: named("new")},
		&v1alpha1.QuorateRebalance{ObjectMeta: named("r"), Status: v1alpha1.QuorateRebalanceStatus{TopologyStatus: v1alpha1.TopologyStatus{Conditions: ready("Done", "True")}}},
	).Build()
}

// chosen is closed: this operator was elected.
func chosen() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// Objects are counted by kind, and by their conditions, by the operator that was elected alone.
func TestObjects(t *testing.T) {
	want := `
# HELP quorate_operator_object_conditions Objects that have a condition, by kind, and by the condition's type, status and reason.
# TYPE quorate_operator_object_conditions gauge
quorate_operator_object_conditions{condition="Ready",kind="QuorateCluster",reason="Serving",status="True"} 1
quorate_operator_object_conditions{condition="Ready",kind="QuorateQueue",reason="Drifted",status="False"} 1
quorate_operator_object_conditions{condition="Ready",kind="QuorateQueue",reason="InBroker",status="True"} 2
quorate_operator_object_conditions{condition="Ready",kind="QuorateRebalance",reason="Done",status="True"} 1
# HELP quorate_operator_objects Objects that there are, by kind.
# TYPE quorate_operator_objects gauge
quorate_operator_objects{kind="QuorateBinding"} 0
quorate_operator_objects{kind="QuorateCluster"} 1
quorate_operator_objects{kind="QuorateExchange"} 0
quorate_operator_objects{kind="QuoratePermission"} 0
quorate_operator_objects{kind="QuoratePolicy"} 0
quorate_operator_objects{kind="QuorateQueue"} 4
quorate_operator_objects{kind="QuorateRebalance"} 1
quorate_operator_objects{kind="QuorateUser"} 0
`
	names := []string{"quorate_operator_objects", "quorate_operator_object_conditions"}
	if err := testutil.CollectAndCompare(New(there(t), chosen()), strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(New(there(t), make(chan struct{})), names...); n != 0 {
		t.Errorf("%d series of an operator that was not elected", n)
	}
	cut := interceptor.NewClient(there(t), interceptor.Funcs{
		List: func(_ context.Context, c kube.WithWatch, l kube.ObjectList, _ ...kube.ListOption) error {
			if _, is := l.(*v1alpha1.QuorateQueueList); is {
				return errors.New("no cache")
			}
			return c.List(context.Background(), l)
		},
	})
	if n := testutil.CollectAndCount(New(cut, chosen()), "quorate_operator_objects"); n != 7 {
		t.Errorf("%d series where one of eight kinds cannot be read", n)
	}
}

// Errors are counted by kind and reason. The age of a cluster is that of its last answer, or of the first look; it goes with
// the cluster.
func TestErrorsAndLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(there(t), make(chan struct{}))
		if problems, err := testutil.CollectAndLint(m); err != nil || len(problems) > 0 {
			t.Errorf("%+v, %v", problems, err)
		}
		m.Failed("QuorateQueue", "Refused")
		m.Failed("QuorateQueue", "Refused")
		if n := testutil.ToFloat64(m.errors.WithLabelValues("QuorateQueue", "Refused")); n != 2 {
			t.Errorf("%v errors", n)
		}
		name := types.NamespacedName{Namespace: "shop", Name: "main"}
		age := func() float64 {
			t.Helper()
			r := prometheus.NewPedanticRegistry()
			if err := r.Register(m); err != nil {
				t.Fatal(err)
			}
			all, err := r.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range all {
				if f.GetName() == "quorate_operator_cluster_look_age_seconds" {
					return f.GetMetric()[0].GetGauge().GetValue()
				}
			}
			return -1
		}
		for _, c := range []struct {
			what     string
			wait     time.Duration
			answered bool
			want     float64
		}{
			{"first look", 0, false, 0}, {"no answer", time.Minute, false, 60}, {"an answer", time.Minute, true, 0}, {"none again", 30 * time.Second, false, 30},
		} {
			time.Sleep(c.wait) // of the bubble
			if m.Looked(name, c.answered); age() != c.want {
				t.Errorf("%s: %v seconds, want %v", c.what, age(), c.want)
			}
		}
		if m.Forget(name); age() != -1 {
			t.Error("a cluster that is gone still has an age")
		}
		var none *Metrics
		none.Failed("x", "y")
		none.Looked(name, true)
		none.Forget(name)
	})
}
