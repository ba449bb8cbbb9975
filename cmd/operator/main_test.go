package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/broker"
)

const (
	manifests = "../../deploy/k8s/operator"
	account   = "quorate-operator"
)

// api starts an API server with the operator's kinds, which ends with the test.
func api(t *testing.T) *rest.Config {
	t.Helper()
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if _, err := os.Stat(filepath.Join(dir, "kube-apiserver")); dir == "" || err != nil {
		t.Skip("KUBEBUILDER_ASSETS names no directory with kube-apiserver and etcd")
	}
	env := &envtest.Environment{
		BinaryAssetsDirectory: dir, CRDDirectoryPaths: []string{manifests + "/crds"}, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute,
	}
	t.Cleanup(func() { // also if the start fails half way: its processes would go on
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// install creates what the manifests have, which the API server checks strictly.
func install(t *testing.T, c kube.Client) (deployment *appsv1.Deployment) {
	t.Helper()
	strict := kube.WithFieldValidation(c, metav1.FieldValidationStrict)
	for _, file := range []string{"namespace.yaml", "rbac/cluster_role.yaml", "rbac.yaml", "deployment.yaml"} {
		text, err := os.ReadFile(filepath.Join(manifests, file))
		if err != nil {
			t.Fatal(err)
		}
		for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
			u := &unstructured.Unstructured{}
			if err := d.Decode(&u.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if kind := u.GetKind(); kind != "Namespace" && !strings.HasPrefix(kind, "ClusterRole") {
				u.SetNamespace(account) // as kustomization.yaml does
			}
			if err := strict.Create(t.Context(), u); err != nil {
				t.Fatalf("%s: %s %q: %v", file, u.GetKind(), u.GetName(), err)
			}
		}
	}
	deployment = &appsv1.Deployment{}
	if err := c.Get(t.Context(), types.NamespacedName{Namespace: account, Name: account}, deployment); err != nil {
		t.Fatal(err)
	}
	return deployment
}

// poll looks at a condition until it holds, for a minute.
func poll(t *testing.T, what string, ok func() error) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s: %v", what, err)
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// Of all pods and volume claims of Kubernetes the operator keeps those of nodes alone.
func TestKeepsNodesAlone(t *testing.T) {
	s, err := scheme()
	if err != nil {
		t.Fatal(err)
	}
	node := labels.Set(broker.Labels(&v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Name: "orders"}}))
	kept := map[string]bool{}
	for of, by := range options(settings{}, s).Cache.ByObject {
		kept[fmt.Sprintf("%T", of)] = by.Label != nil && by.Label.Matches(node) && !by.Label.Matches(labels.Set{"app.kubernetes.io/name": "shop"})
	}
	for _, of := range []string{"*v1.Pod", "*v1.PersistentVolumeClaim"} {
		if !kept[of] {
			t.Errorf("of %s those of nodes, and no others, are to be kept", of)
		}
	}
}

// Of Secrets the operator keeps names and versions: what an annotation has of their content is not kept.
func TestKeepsNoSecrets(t *testing.T) {
	s, err := scheme()
	if err != nil {
		t.Fatal(err)
	}
	for of, by := range options(settings{}, s).Cache.ByObject {
		if _, is := of.(*corev1.Secret); !is {
			continue
		}
		kept := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "app-user", UID: "u", ResourceVersion: "7",
			Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: `{"data":{"password":"c2VjcmV0"}}`},
		}}
		if _, err := by.Transform(kept); err != nil || len(kept.Annotations) > 0 || kept.Name != "app-user" || kept.UID != "u" || kept.ResourceVersion != "7" {
			t.Errorf("kept are %+v, %v", kept, err)
		}
		return
	}
	t.Error("Secrets are kept with all of their metadata")
}

// Of events the operator keeps none: there are many, and its rights are to list them, not to watch.
func TestKeepsNoEvents(t *testing.T) {
	s, err := scheme()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range options(settings{}, s).Client.Cache.DisableFor {
		if _, is := o.(*corev1.Event); is {
			return
		}
	}
	t.Error("events are kept")
}

// refuse says of a CronJob what Kubernetes does when it cannot make its next job.
func refuse(t *testing.T, c kube.Client, cronJob types.NamespacedName) {
	t.Helper()
	var of batchv1.CronJob
	if err := c.Get(t.Context(), cronJob, &of); err != nil {
		t.Fatal(err)
	}
	now := metav1.Now()
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: of.Namespace, Name: of.Name + "-refused"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "batch/v1", Kind: "CronJob", Namespace: of.Namespace, Name: of.Name, UID: of.UID},
		Type:           corev1.EventTypeWarning, Reason: "FailedCreate", Message: "Error creating job: exceeded quota",
		Source: corev1.EventSource{Component: "cronjob-controller"}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	if err := c.Create(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}

// The manifests are accepted, the operator's pod under the level restricted, and the operator does its work with the rights
// that they give it, and no more: it wins the election, answers probes, serves metrics, makes what a cluster needs, and reads why
// a backup does not begin.
func TestOperatorWithItsRights(t *testing.T) {
	if testing.Short() {
		t.Skip("starts an API server")
	}
	config := api(t)
	s, err := scheme()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := kube.New(config, kube.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	template := install(t, admin).Spec.Template
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "try", Namespace: account, Labels: template.Labels}, Spec: template.Spec}
	if err := admin.Create(t.Context(), pod); err != nil {
		t.Errorf("the operator's pod is refused: %v", err)
	}

	own := rest.CopyConfig(config)
	own.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + account + ":" + account}
	set := settings{metrics: freePort(t), health: freePort(t), elect: true, electIn: account}
	m, err := newManager(own, set)
	if err != nil {
		t.Fatal(err)
	}
	pool := broker.NewPool(m.GetClient())
	defer pool.Close()
	counted, err := addMetrics(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := addControllers(m, pool, counted); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Start(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	q := &v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Name: "orders", Namespace: "default"}}
	q.Spec.Backup = &v1alpha1.BackupSpec{Schedule: "0 3 * * *", PersistentVolumeClaim: &v1alpha1.BackupVolume{ClaimName: "backups"}}
	if err := admin.Create(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	name := kube.ObjectKeyFromObject(q)
	poll(t, "the StatefulSet is there", func() error {
		_ = admin.Get(t.Context(), name, q)
		if err := admin.Get(t.Context(), name, &appsv1.StatefulSet{}); err != nil {
			return fmt.Errorf("%w; status %+v", err, q.Status)
		}
		return nil
	})
	for _, url := range []string{"http://" + set.health + "/healthz", "http://" + set.health + "/readyz", "http://" + set.metrics + "/metrics"} {
		r, err := http.Get(url) //nolint:noctx // ends with the test
		if err != nil {
			t.Fatal(err)
		}
		if _ = r.Body.Close(); r.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", url, r.Status)
		}
	}
	poll(t, "the status says what is missing", func() error {
		if err := admin.Get(t.Context(), name, q); err != nil {
			return err
		}
		if q.Status.Step == "" || q.Status.Administrator != "orders-operator" || len(q.Status.Conditions) < 3 {
			return fmt.Errorf("status %+v", q.Status)
		}
		return nil
	})
	refuse(t, admin, types.NamespacedName{Namespace: "default", Name: "orders-backup"})
	poll(t, "the status says why no backup begins", func() error {
		if err := admin.Get(t.Context(), name, q); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(q.Status.Conditions, v1alpha1.ConditionBackupFailing); c == nil || !strings.Contains(c.Message, "exceeded quota") {
			return fmt.Errorf("BackupFailing is %+v", c)
		}
		return nil
	})
	if err := admin.Delete(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	poll(t, "the object goes", func() error {
		if err := admin.Get(t.Context(), name, q); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is still there: %w", err)
		}
		return nil
	})
	for _, secret := range []string{"orders-operator", "orders-gossip"} {
		if err := admin.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: secret}, &corev1.Secret{}); err != nil {
			t.Errorf("the Secret went with the cluster: %v", err)
		}
	}
}
