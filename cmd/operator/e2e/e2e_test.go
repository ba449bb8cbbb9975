// Package e2e tries the controllers of what is in a cluster with a real API server and real nodes of the broker.
package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	server "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/clienttest"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/rebalance"
	"github.com/quorate/quorate/cmd/operator/topology"
	"github.com/quorate/quorate/cmd/operator/webhook"
)

const (
	namespace = "default"
	resync    = 2 * time.Second
	patience  = 2 * time.Minute
)

// world is an API server, a cluster of brokers, and the operator, which can be stopped and started.
type world struct {
	t       *testing.T
	config  *rest.Config
	env     *envtest.Environment
	scheme  *runtime.Scheme
	kube    kube.Client
	nodes   *clienttest.Cluster
	broker  *client.Client
	watched *client.Client // the operator's
	calls   atomic.Int64   // that the operator has made
	stop    func()
}

// binaries finds what `make kube` builds.
func binaries(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		dir, _ = filepath.Abs("../../../bin")
	}
	if _, err := os.Stat(filepath.Join(dir, "kube-apiserver")); err != nil {
		t.Skipf("no API server in %s: run make kube, or set KUBEBUILDER_ASSETS", dir)
	}
	return dir
}

func newWorld(t *testing.T, nodes int) *world {
	t.Helper()
	assets := binaries(t)
	w := &world{t: t, scheme: runtime.NewScheme(), nodes: clienttest.Start(t, nodes)}
	for _, add := range []func(*runtime.Scheme) error{kubescheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(w.scheme); err != nil {
			t.Fatal(err)
		}
	}
	w.env = &envtest.Environment{
		BinaryAssetsDirectory: assets, CRDDirectoryPaths: []string{"../../../deploy/k8s/operator/crds"}, ErrorIfCRDPathMissing: true,
		WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{"../../../deploy/k8s/operator/webhook/webhook.yaml"}},
		Scheme:                w.scheme, ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute,
	}
	t.Cleanup(func() { // also if the start fails half way: its processes would go on
		if err := w.env.Stop(); err != nil {
			t.Error(err)
		}
	})
	var err error
	if w.config, err = w.env.Start(); err != nil {
		t.Fatal(err)
	}
	w.config.QPS, w.config.Burst = 500, 1000
	if w.kube, err = kube.New(w.config, kube.Options{Scheme: w.scheme}); err != nil {
		t.Fatal(err)
	}
	w.broker = w.nodes.Client()
	count := func(ctx context.Context, method string, q, r any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
		if strings.Contains(method, "quorate.broker") {
			w.calls.Add(1)
		}
		return invoke(ctx, method, q, r, cc, o...)
	}
	w.watched, err = client.New(client.Config{
		Addresses: w.nodes.Addresses(), CallTimeout: 3 * time.Second, DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(count)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.watched.Close)
	c := &v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "main"}}
	w.create(c)
	c.Status.ReadyReplicas = 1
	if err := w.kube.Status().Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	w.start()
	return w
}

// Of makes a world the brokers of the topology's controllers.
func (w *world) Of(context.Context, *v1alpha1.QuorateCluster) (*client.Client, error) {
	return w.watched, nil
}

// For makes it those of the rebalance's.
func (w *world) For(context.Context, string, v1alpha1.ClusterReference) (*client.Client, error) {
	return w.watched, nil
}

// start starts the operator.
func (w *world) start() {
	w.t.Helper()
	install := w.env.WebhookInstallOptions
	again := true // controllers of one name, one process after the other
	m, err := ctrl.NewManager(w.config, ctrl.Options{
		Scheme: w.scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &again},
		WebhookServer: server.NewServer(server.Options{Host: install.LocalServingHost, Port: install.LocalServingPort, CertDir: install.LocalServingCertDir}),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := topology.Add(ctx, topology.Config{Manager: m, Brokers: w, Resync: resync}); err != nil {
		w.t.Fatal(err)
	}
	if err := rebalance.Add(rebalance.Config{Manager: m, Brokers: w}); err != nil {
		w.t.Fatal(err)
	}
	if err := webhook.Add(m); err != nil {
		w.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- m.Start(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
		w.stop = func() {}
	}
	w.t.Cleanup(func() { w.stop() })
	w.poll("the webhook answers", func() error { return m.GetWebhookServer().StartedChecker()(nil) })
}

func (w *world) create(o kube.Object) {
	w.t.Helper()
	if err := w.kube.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// poll waits until a condition holds.
func (w *world) poll(what string, holds func() error) {
	w.t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if err = holds(); err == nil {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-w.t.Context().Done():
		}
	}
	w.t.Fatalf("%s: %v", what, err)
}

// has waits until a condition of an object has a reason.
func (w *world) has(o kube.Object, conditions func() []metav1.Condition, kind, reason string) {
	w.t.Helper()
	w.poll(o.GetName()+" is "+reason, func() error {
		if err := w.kube.Get(w.t.Context(), kube.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		c := meta.FindStatusCondition(conditions(), kind)
		if c == nil || c.Reason != reason || c.ObservedGeneration != o.GetGeneration() {
			return fmt.Errorf("conditions %+v", conditions())
		}
		return nil
	})
}

func (w *world) queueHas(q *v1alpha1.QuorateQueue, kind, reason string) {
	w.t.Helper()
	w.has(q, func() []metav1.Condition { return q.Status.Conditions }, kind, reason)
}

// gone waits until an object is deleted.
func (w *world) gone(o kube.Object) {
	w.t.Helper()
	w.poll(o.GetName()+" is gone", func() error {
		err := w.kube.Get(w.t.Context(), kube.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%w, %+v", err, o)
	})
}

func (w *world) do(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

var main = v1alpha1.ClusterReference{Name: "main"}

func newQueue(name string) *v1alpha1.QuorateQueue {
	return &v1alpha1.QuorateQueue{ObjectMeta: named(name), Spec: v1alpha1.QuorateQueueSpec{Cluster: main}}
}

// Every kind is made in the broker, and what somebody changes there is put back.
func TestMadeAndMended(t *testing.T) {
	w := newWorld(t, 1)
	ctx := t.Context()
	q := newQueue("orders")
	x := &v1alpha1.QuorateExchange{ObjectMeta: named("events"), Spec: v1alpha1.QuorateExchangeSpec{Cluster: main, Type: "topic"}}
	b := &v1alpha1.QuorateBinding{ObjectMeta: named("bound"), Spec: v1alpha1.QuorateBindingSpec{Cluster: main, Source: "events", Destination: "orders", RoutingKey: "a.#"}}
	p := &v1alpha1.QuoratePolicy{ObjectMeta: named("limits"), Spec: v1alpha1.QuoratePolicySpec{
		Cluster: main, Pattern: "^orders", Definition: apiextensionsv1.JSON{Raw: []byte(`{"max-length": 10}`)},
	}}
	u := &v1alpha1.QuorateUser{ObjectMeta: named("app"), Spec: v1alpha1.QuorateUserSpec{Cluster: main}}
	r := &v1alpha1.QuoratePermission{ObjectMeta: named("app"), Spec: v1alpha1.QuoratePermissionSpec{Cluster: main, User: "app", Read: "^orders$"}}
	for _, o := range []kube.Object{r, b, u, p, x, q} { // those that need others first
		w.create(o)
	}
	ready := func() {
		t.Helper()
		w.queueHas(q, v1alpha1.ConditionReady, "InBroker")
		w.has(x, func() []metav1.Condition { return x.Status.Conditions }, v1alpha1.ConditionReady, "InBroker")
		w.has(b, func() []metav1.Condition { return b.Status.Conditions }, v1alpha1.ConditionReady, "InBroker")
		w.has(p, func() []metav1.Condition { return p.Status.Conditions }, v1alpha1.ConditionReady, "InBroker")
		w.has(u, func() []metav1.Condition { return u.Status.Conditions }, v1alpha1.ConditionReady, "InBroker")
		w.has(r, func() []metav1.Condition { return r.Status.Conditions }, v1alpha1.ConditionReady, "InBroker")
	}
	ready()
	var secret corev1.Secret
	w.do(w.kube.Get(ctx, kube.ObjectKey{Namespace: namespace, Name: "app-user"}, &secret))
	c, err := client.New(client.Config{Addresses: w.nodes.Addresses(), Username: "app", Password: string(secret.Data["password"])})
	w.do(err)
	defer c.Close()
	if who, err := c.WhoAmI(ctx); err != nil || who.User != "app" {
		t.Errorf("%+v, %v", who, err)
	}

	_, err = w.broker.DeleteQueue(ctx, client.DeleteQueueRequest{Name: "orders"})
	w.do(err)
	_, err = w.broker.PutPolicy(ctx, client.Policy{Name: "limits", Pattern: "^other", Definition: client.Table{"max-length": 99}})
	w.do(err)
	_, err = w.broker.ClearPermission(ctx, client.PermissionRef{VHost: "/", User: "app"})
	w.do(err)
	w.poll("the queue is back, bound, under its policy, and readable", func() error {
		found, err := w.broker.GetQueue(ctx, client.QueueRef{Name: "orders"})
		if err != nil || found.EffectiveArguments["x-max-length"] == nil {
			return fmt.Errorf("%+v, %w", found, err)
		}
		for b, err := range w.broker.Bindings(ctx, "/") {
			if err == nil && b.Source == "events" && b.Destination == "orders" {
				rights, err := client.Collect(w.broker.Permissions(ctx, client.ListPermissionsRequest{User: "app"}))
				if err == nil && len(rights) == 1 {
					return nil
				}
			}
		}
		return fmt.Errorf("not bound, or not readable")
	})

	// The API server refuses another name, the webhook other faults.
	ready()
	q.Spec.Name = "another"
	if err := w.kube.Update(ctx, q); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "name is immutable") {
		t.Errorf("%v", err)
	}
	bad := newQueue("bad")
	bad.Spec.Arguments = &apiextensionsv1.JSON{Raw: []byte(`{"x-overflow": "drop"}`)}
	if err := w.kube.Create(ctx, bad); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.arguments[x-overflow]") {
		t.Errorf("%v", err)
	}
	for _, o := range []kube.Object{r, u, b, x, p, q} {
		w.do(w.kube.Delete(ctx, o))
	}
	for _, o := range []kube.Object{r, u, b, x, p, q} {
		w.gone(o)
	}
	if all, err := client.Collect(w.broker.Queues(ctx, client.ListQueuesRequest{})); err != nil || len(all) > 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// A queue with messages survives the deletion of its object; a second object for it waits, and inherits it.
func TestProtectedAndShared(t *testing.T) {
	w := newWorld(t, 1)
	ctx := t.Context()
	q := newQueue("kept")
	w.create(q)
	w.queueHas(q, v1alpha1.ConditionReady, "InBroker")
	_, err := w.broker.PublishOne(ctx, client.Message{RoutingKey: "kept", Body: []byte("one")})
	w.do(err)
	w.do(w.kube.Delete(ctx, q))
	w.queueHas(q, v1alpha1.ConditionDeletionBlocked, "InUse")

	// The operator is killed while the object waits, and the queue becomes empty.
	w.stop()
	_, err = w.broker.PurgeQueue(ctx, client.QueueRef{Name: "kept"})
	w.do(err)
	w.start()
	w.gone(q)
	if _, err := w.broker.GetQueue(ctx, client.QueueRef{Name: "kept"}); client.ClassOf(err) != client.NotFound {
		t.Errorf("%v", err)
	}

	first := newQueue("first")
	first.Spec.Name = "shared"
	w.create(first)
	w.queueHas(first, v1alpha1.ConditionReady, "InBroker")
	w.poll("the clock shows another second", func() error {
		if time.Since(first.CreationTimestamp.Time) < time.Second {
			return fmt.Errorf("ages are in seconds")
		}
		return nil
	})
	second := newQueue("a-second")
	second.Spec.Name = "shared"
	w.create(second)
	w.queueHas(second, v1alpha1.ConditionReady, "OwnedByOlder")
	w.do(w.kube.Delete(ctx, first))
	w.gone(first)
	w.queueHas(second, v1alpha1.ConditionReady, "InBroker")
	if found, err := w.broker.GetQueue(ctx, client.QueueRef{Name: "shared"}); err != nil {
		t.Errorf("%+v, %v", found, err)
	}
}

// While the cluster is down, its objects say so; when it is back, what was asked for meanwhile is done.
func TestClusterDown(t *testing.T) {
	w := newWorld(t, 1)
	q := newQueue("before")
	w.create(q)
	w.queueHas(q, v1alpha1.ConditionReady, "InBroker")
	w.nodes.Kill(0)
	late := newQueue("late")
	w.create(late)
	w.queueHas(late, v1alpha1.ConditionReady, "ClusterUnavailable")
	w.do(w.kube.Delete(t.Context(), q))
	w.queueHas(q, v1alpha1.ConditionDeletionBlocked, "ClusterUnavailable")
	w.nodes.Restart(0)
	w.queueHas(late, v1alpha1.ConditionReady, "InBroker")
	w.gone(q)
}

// A thousand objects become queues. As long as nobody touches them, a resync of all of them costs a few calls.
func TestThousand(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a thousand objects")
	}
	const n = 1000
	w := newWorld(t, 1)
	begun := time.Now()
	for i := range n {
		w.create(newQueue(fmt.Sprintf("q-%04d", i)))
	}
	var list v1alpha1.QuorateQueueList
	w.poll("all are ready", func() error {
		w.do(w.kube.List(t.Context(), &list))
		ready := 0
		for i := range list.Items {
			if meta.IsStatusConditionTrue(list.Items[i].Status.Conditions, v1alpha1.ConditionReady) {
				ready++
			}
		}
		if ready != n {
			return fmt.Errorf("%d of %d", ready, n)
		}
		return nil
	})
	t.Logf("%d queues ready after %v, %d calls", n, time.Since(begun).Round(time.Second), w.calls.Load())
	quiet := time.Now()
	calls, looks := w.calls.Load(), 5
	w.poll("several resyncs have passed", func() error {
		if time.Since(quiet) < time.Duration(looks)*resync {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	if c := w.calls.Load() - calls; c > 100 {
		t.Errorf("%d calls in %d resyncs of %d objects that nobody touched", c, looks, n)
	} else {
		t.Logf("%d calls in %d resyncs", c, looks)
	}
}

// A rebalance proposes, waits for the approval, and moves leaders.
func TestRebalance(t *testing.T) {
	w := newWorld(t, 3)
	ctx := t.Context()
	for i := range 2 {
		local, err := client.New(client.Config{Addresses: w.nodes.Addresses()[:1], FixedAddresses: true})
		w.do(err)
		_, err = local.DeclareQueue(ctx, client.Queue{Name: fmt.Sprint("q", i), Arguments: client.Table{"x-queue-leader-locator": "client-local"}})
		local.Close()
		w.do(err)
	}
	o := &v1alpha1.QuorateRebalance{ObjectMeta: named("even"), Spec: v1alpha1.QuorateRebalanceSpec{Cluster: main, Scope: v1alpha1.RebalanceLeaders}}
	w.create(o)
	conditions := func() []metav1.Condition { return o.Status.Conditions }
	w.has(o, conditions, v1alpha1.ConditionReady, "ProposalReady")
	if o.Status.Proposal.Moves != 1 {
		t.Errorf("%+v", o.Status.Proposal)
	}
	before := o.DeepCopy()
	o.Annotations = map[string]string{v1alpha1.AnnotationApprove: o.Status.Proposal.Hash}
	w.do(w.kube.Patch(ctx, o, kube.MergeFrom(before)))
	w.has(o, conditions, v1alpha1.ConditionReady, "Done")
	w.poll("the annotation is followed", func() error {
		w.do(w.kube.Get(ctx, kube.ObjectKeyFromObject(o), o))
		if len(o.Annotations) > 0 {
			return fmt.Errorf("%v", o.Annotations)
		}
		return nil
	})
	w.do(w.kube.Delete(ctx, o))
	w.gone(o)
}
