package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

// refusing is an API server whose answer to objects that are applied is of a function; nil: it takes them.
func refusing(c kube.WithWatch, answer func(ctx context.Context, kind, name string) error) kube.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{Apply: func(ctx context.Context, c kube.WithWatch, config runtime.ApplyConfiguration, options ...kube.ApplyOption) error {
		text, err := json.Marshal(config)
		if err != nil {
			return err
		}
		var o struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := json.Unmarshal(text, &o); err != nil {
			return err
		}
		if err := answer(ctx, o.Kind, o.Metadata.Name); err != nil {
			return err
		}
		return c.Apply(ctx, config, options...)
	}})
}

// refuse lets the API server refuse the objects of a kind.
func (o *orders) refuse(kind string) {
	o.r.Client = refusing(o.kube, func(_ context.Context, k, name string) error {
		if k == kind {
			return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, name, errors.New("exceeded quota"))
		}
		return nil
	})
}

// change changes the specification.
func (m *machine) change(how func(*v1alpha1.QuorateClusterSpec)) {
	m.t.Helper()
	var q v1alpha1.QuorateCluster
	m.must(m.kube.Get(m.t.Context(), m.name, &q))
	how(&q.Spec)
	m.must(m.kube.Update(m.t.Context(), &q))
}

// debug gives the nodes another setting: they log more.
func (m *machine) debug() {
	m.t.Helper()
	m.change(func(s *v1alpha1.QuorateClusterSpec) {
		s.Config = &apiextensionsv1.JSON{Raw: []byte(`{"log":{"level":"debug"}}`)}
	})
}

// revision returns that of the first node's pod; "": none.
func (m *machine) revision() string {
	var pod corev1.Pod
	name := m.name
	name.Name += "-0"
	m.must(kube.IgnoreNotFound(m.kube.Get(m.t.Context(), name, &pod)))
	return pod.Labels[appsv1.ControllerRevisionHashLabelKey]
}

// blocked returns what a condition says while it is true.
func blocked(q *v1alpha1.QuorateCluster, kind string) string {
	if c := meta.FindStatusCondition(q.Status.Conditions, kind); c != nil && c.Status == "True" {
		return c.Reason + ": " + c.Message
	}
	return ""
}

// What Kubernetes refuses to make is said, and is no ground to leave the nodes alone: they are Ready, and get new settings.
func TestRefusedObject(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a node")
	}
	refused := true
	c := refusing(inMemory(t), func(_ context.Context, kind, name string) error {
		if refused && kind == kindCronJob {
			fault := field.Invalid(field.NewPath("spec", "schedule"), "0 3 * *", "expected exactly 5 fields, found 4")
			return apierrors.NewInvalid(schema.GroupKind{Group: "batch", Kind: kind}, name, field.ErrorList{fault})
		}
		return nil
	})
	m, pass := begin(t, c, 1, func(s *v1alpha1.QuorateClusterSpec) {
		s.Backup = &v1alpha1.BackupSpec{Schedule: "0 3 * *", PersistentVolumeClaim: &v1alpha1.BackupVolume{ClaimName: "v"}}
	})
	said := func(q *v1alpha1.QuorateCluster) error {
		why := blocked(q, v1alpha1.ConditionObjectsBlocked)
		if !strings.HasPrefix(why, reasonObjectRefused) || !strings.Contains(why, `CronJob "node-backup"`) || !strings.Contains(why, "found 4") || blocked(q, v1alpha1.ConditionDegraded) == "" {
			return fmt.Errorf("ObjectsBlocked is %q", why)
		}
		return ready(q)
	}
	m.until(pass, "the node serves, and the refusal is said", said)
	before := m.revision()
	m.debug()
	m.until(pass, "the node has the new setting", func(q *v1alpha1.QuorateCluster) error {
		if now := m.revision(); now == before || now == "" {
			return fmt.Errorf("the pod is of revision %q still", now)
		}
		return said(q)
	})
	refused = false
	m.until(pass, "the backup is made", func(q *v1alpha1.QuorateCluster) error {
		if why := blocked(q, v1alpha1.ConditionObjectsBlocked); why != "" {
			return errors.New(why)
		}
		name := m.name
		name.Name = "node-backup"
		return c.Get(t.Context(), name, &batchv1.CronJob{})
	})
}

// A cluster is not founded without what its pods need to start, nor open to everybody because its NetworkPolicy is refused. It
// is founded without what they do not need.
func TestRefusedAtFounding(t *testing.T) {
	for kind, founded := range map[string]bool{"ConfigMap": false, kindService: false, kindAccount: false, kindPolicy: false, "PodDisruptionBudget": true} {
		o := newOrders(t)
		o.refuse(kind)
		if why := o.pass(); !strings.HasPrefix(why, reasonObjectRefused) || !strings.Contains(why, kind) || !strings.Contains(why, "exceeded quota") {
			t.Errorf("%s: blocked: %q", kind, why)
		}
		if is := o.get("orders", &appsv1.StatefulSet{}); is != founded {
			t.Errorf("%s is refused: the StatefulSet is there: %v", kind, is)
		}
		o.r.Client = o.kube
		if why := o.pass(); why != "" || !o.get("orders", &appsv1.StatefulSet{}) {
			t.Errorf("%s is taken now: the StatefulSet is not there: %s", kind, why)
		}
	}
}

// A specification that no objects can be made of leaves a cluster that is there as it is, and says what is wrong.
func TestFaultySpecification(t *testing.T) {
	o := newOrders(t)
	if why := o.pass(); why != "" {
		t.Fatal(why)
	}
	var before, after appsv1.StatefulSet
	var q v1alpha1.QuorateCluster
	o.get("orders", &before)
	o.get("orders", &q)
	q.Spec.Config = &apiextensionsv1.JSON{Raw: []byte(`[1]`)}
	if err := o.kube.Update(t.Context(), &q); err != nil {
		t.Fatal(err)
	}
	if why := o.pass(); !strings.HasPrefix(why, reasonSpecification) || !strings.Contains(why, "spec.config") {
		t.Errorf("blocked: %q", why)
	}
	o.get("orders", &after)
	if before.ResourceVersion != after.ResourceVersion || !o.get("orders", &corev1.Service{}) {
		t.Error("what is there has changed")
	}
}

// A webhook of somebody else that does not answer takes no whole pass: of a kind whose object was not taken in time the others
// are not tried, and the rest goes on.
func TestHangingWebhook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, tried := newOrders(t), 0
		o.r.Client = refusing(o.kube, func(ctx context.Context, kind, _ string) error {
			if kind != kindService { // there are two
				return nil
			}
			tried++
			<-ctx.Done()
			return ctx.Err()
		})
		begun := time.Now()
		why := o.pass()
		if took := time.Since(begun); took != applyTimeout || tried != 1 {
			t.Errorf("the pass took %v, and %d were tried", took, tried)
		}
		if !strings.Contains(why, "deadline exceeded") || !strings.Contains(why, "not tried") {
			t.Errorf("blocked: %q", why)
		}
		if !o.get("orders", &corev1.ServiceAccount{}) || o.get("orders", &appsv1.StatefulSet{}) {
			t.Error("the rest was not made, or pods that could not find one another")
		}
	})
}

// A volume that Kubernetes does not let grow is said in its words, and holds up neither new settings nor anything else. It grows
// once it may.
func TestRefusedGrowth(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a node")
	}
	full := true
	c := interceptor.NewClient(inMemory(t), interceptor.Funcs{
		Get: func(ctx context.Context, c kube.WithWatch, name kube.ObjectKey, into kube.Object, options ...kube.GetOption) error {
			if _, is := into.(*storagev1.StorageClass); is { // as for an operator of one namespace
				return apierrors.NewForbidden(schema.GroupResource{Resource: "storageclasses"}, name.Name, errors.New("no right"))
			}
			return c.Get(ctx, name, into, options...)
		},
		Patch: func(ctx context.Context, c kube.WithWatch, o kube.Object, patch kube.Patch, options ...kube.PatchOption) error {
			if _, is := o.(*corev1.PersistentVolumeClaim); is && full {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, o.GetName(), errors.New("exceeded quota: disks"))
			}
			return c.Patch(ctx, o, patch, options...)
		},
	})
	m, pass := begin(t, c, 1, nil)
	m.until(pass, "the node serves", ready)
	before := m.revision()
	m.change(func(s *v1alpha1.QuorateClusterSpec) { s.Storage.Size = "2Gi" })
	m.debug()
	m.until(pass, "the node has the new setting, and the refusal is said", func(q *v1alpha1.QuorateCluster) error {
		why := blocked(q, v1alpha1.ConditionStorageBlocked)
		if now := m.revision(); now == before || now == "" || !strings.Contains(why, "exceeded quota: disks") {
			return fmt.Errorf("the pod is of revision %q, StorageBlocked is %q", now, why)
		}
		return ready(q)
	})
	full = false
	m.until(pass, "the volume grows", func(q *v1alpha1.QuorateCluster) error {
		var claim corev1.PersistentVolumeClaim
		name := m.name
		name.Name = "data-node-0"
		m.must(c.Get(t.Context(), name, &claim))
		if size := claim.Spec.Resources.Requests.Storage().String(); size != "2Gi" || blocked(q, v1alpha1.ConditionStorageBlocked) != "" {
			return fmt.Errorf("the claim is of %s", size)
		}
		return ready(q)
	})
}
