package topology

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/clienttest"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

// indexes are those of the controllers, in a client without a cache.
type indexes struct{ *fake.ClientBuilder }

func (i indexes) IndexField(_ context.Context, o kube.Object, field string, f kube.IndexerFunc) error {
	i.WithIndex(o, field, f)
	return nil
}

// world is a real cluster of brokers with the reconcilers of all kinds, over an API server in memory.
type world struct {
	t       *testing.T
	nodes   *clienttest.Cluster
	broker  *client.Client
	calls   atomic.Int64 // that the reconcilers have made
	rights  atomic.Value // string: the names of those of them that set permissions, in order
	watched *client.Client
	kube    kube.Client
	kinds   map[string]*reconciler
	shared  *clusters
	events  *events.FakeRecorder
}

// Of makes a world the Brokers of its reconcilers.
func (w *world) Of(context.Context, *v1alpha1.QuorateCluster) (*client.Client, error) {
	return w.watched, nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, nodes: clienttest.Start(t, 1), kinds: map[string]*reconciler{}, events: events.NewFakeRecorder(4096)}
	w.broker = w.nodes.Client()
	count := func(ctx context.Context, method string, q, r any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
		if strings.Contains(method, "quorate.broker") {
			w.calls.Add(1)
		}
		if name := path.Base(method); strings.HasPrefix(name, "Set") && strings.HasSuffix(name, "Permission") {
			before, _ := w.rights.Load().(string)
			w.rights.Store(before + " " + name)
		}
		return invoke(ctx, method, q, r, cc, o...)
	}
	c, err := client.Dial(t.Context(), client.Config{
		Addresses: w.nodes.Addresses(), CallTimeout: 5 * time.Second, DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(count)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w.watched, w.shared = c, newClusters(w)
	scheme := runtime.NewScheme()
	if err := kubescheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := fake.NewClientBuilder().WithScheme(scheme)
	for _, k := range kinds() {
		b = b.WithStatusSubresource(k.object())
		if err := addIndexes(t.Context(), indexes{b}, k); err != nil {
			t.Fatal(err)
		}
	}
	w.kube = b.Build()
	w.restart()
	w.create(&v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "main", UID: "main"}})
	return w
}

// restart is what a new process of the operator has: nothing.
func (w *world) restart() {
	w.shared = newClusters(w)
	for name, k := range kinds() {
		w.kinds[name] = &reconciler{kind: k, kube: w.kube, secrets: w.kube, versions: w.kube, recorder: w.events, clusters: w.shared, resync: time.Minute}
	}
}

// inShop are the metadata of an object in the cluster's namespace.
func inShop(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Generation: 1, CreationTimestamp: metav1.Now()}
}

var main = v1alpha1.ClusterReference{Name: "main"}

func (w *world) create(o kube.Object) {
	w.t.Helper()
	if err := w.kube.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// look reconciles an object and returns it as it is afterwards, with when to look again; nil: it is gone.
func look[T object](w *world, kind string, o T) (T, time.Duration) {
	w.t.Helper()
	r := w.kinds[kind]
	key := kube.ObjectKeyFromObject(o)
	out, err := r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key})
	if err != nil {
		w.t.Fatal(err)
	}
	after := r.kind.object()
	if err := w.kube.Get(w.t.Context(), key, after); err != nil {
		if kube.IgnoreNotFound(err) != nil {
			w.t.Fatal(err)
		}
		var none T
		return none, out.RequeueAfter
	}
	return as[T](after), out.RequeueAfter
}

// wants checks the reason of a condition, and parts of its message.
func (w *world) wants(o object, condition, reason string, parts ...string) {
	w.t.Helper()
	c := meta.FindStatusCondition(o.Common().Conditions, condition)
	if c == nil {
		c = &metav1.Condition{Reason: "none"}
	}
	if c.Reason != reason {
		w.t.Errorf("%s: condition %s has reason %s: %s; want %s", o.GetName(), condition, c.Reason, c.Message, reason)
	}
	for _, p := range parts {
		if !strings.Contains(c.Message, p) {
			w.t.Errorf("%s: condition %s says %q; want %q in it", o.GetName(), condition, c.Message, p)
		}
	}
}

// happened returns the events since the last call.
func (w *world) happened() string {
	var out []string
	for {
		select {
		case e := <-w.events.Events:
			out = append(out, e)
		default:
			return fmt.Sprint(out)
		}
	}
}

// do fails the test on an error of the broker.
func (w *world) do(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}
