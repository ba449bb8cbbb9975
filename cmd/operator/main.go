// Command operator keeps clusters of Quorate, and what is in them, as objects of Kubernetes describe
// them. docs/kubernetes-operator.md describes how to install it and what it does.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/quorate/quorate"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/broker"
)

// main exits with 1 on any error.
func main() {
	s, done, err := parse(os.Args[1:], os.Stdout)
	if err == nil && !done {
		err = run(ctrl.SetupSignalHandler(), s)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "operator: %v\n", err)
		os.Exit(1)
	}
}

// run runs the operator until ctx ends.
func run(ctx context.Context, s settings) error {
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: s.level}))
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the API server: run in a pod, or set KUBECONFIG: %w", err)
	}
	m, err := newManager(config, s)
	if err != nil {
		return err
	}
	pool := broker.NewPool(m.GetClient())
	defer pool.Close()
	own, err := addMetrics(m)
	if err != nil {
		return err
	}
	if err := addControllers(m, pool, own); err != nil {
		return err
	}
	log.Info("operator starts", "version", quorate.Version(), "namespace", s.namespace)
	if err := addObjects(ctx, m, pool, own, s); err != nil {
		return err
	}
	return m.Start(ctx)
}

// scheme has all kinds that the operator reads and writes.
func scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := kubescheme.AddToScheme(s); err != nil {
		return nil, err
	}
	return s, v1alpha1.AddToScheme(s)
}

// addProbes answers /healthz and /readyz.
func addProbes(m manager.Manager) error {
	if err := m.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	return m.AddReadyzCheck("ping", healthz.Ping)
}

// options returns the manager's. Secrets and what is read seldom comes from the API server each time: a copy
// of all those of a namespace would be a hoard of other people's secrets. Of pods and claims, of which there may be
// thousands that are nobody's nodes, only those of nodes are kept.
func options(s settings, scheme *runtime.Scheme) ctrl.Options {
	nodes := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{"app.kubernetes.io/name": "quorate"})}
	o := ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: s.metrics}, HealthProbeBindAddress: s.health,
		LeaderElection: s.elect, LeaderElectionID: "operator." + v1alpha1.Group, LeaderElectionNamespace: s.electIn, LeaderElectionReleaseOnCancel: true,
		Client: kube.Options{Cache: &kube.CacheOptions{DisableFor: []kube.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &storagev1.StorageClass{}, &batchv1.CronJob{}, &batchv1.Job{}, &corev1.Event{}}}},
	}
	o.Cache.ByObject = map[kube.Object]cache.ByObject{&corev1.Pod{}: nodes, &corev1.PersistentVolumeClaim{}: nodes, &corev1.Secret{}: {Transform: bare}}
	if s.webhook != "" {
		o.WebhookServer = webhookServer(s)
	}
	if s.namespace != "" {
		o.Cache.DefaultNamespaces = map[string]cache.Config{s.namespace: {}}
	}
	return o
}

// bare leaves of the metadata of a Secret, which are cached, its name and version: an annotation of kubectl apply has all of the
// Secret.
func bare(o any) (any, error) {
	if m, is := o.(metav1.Object); is {
		m.SetAnnotations(nil)
		m.SetLabels(nil)
		m.SetManagedFields(nil)
	}
	return o, nil
}
