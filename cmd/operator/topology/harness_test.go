package topology

import (
	"context"
	"fmt"
	"math"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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
	api     kube.WithWatch // the API server, for the test
	kube    kube.Client    // the same, for the reconcilers
	left    atomic.Int64   // effects that the reconcilers may still have before they are killed
	// identities, if not nil, has the objects by what they name, as the operator's cache has them: the API server in memory
	// looks through all objects.
	identities map[string]*v1alpha1.QuorateBinding
	kinds      map[string]*reconciler
	shared     *clusters
	events     *events.FakeRecorder
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
		if !strings.Contains(method, "quorate.broker") {
			return invoke(ctx, method, q, r, cc, o...)
		}
		return w.effect(func() error { return invoke(ctx, method, q, r, cc, o...) })
	}
	w.live()
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
	w.api = b.Build()
	w.kube = w.mortal()
	w.restart()
	w.create(&v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "main", UID: "main"}})
	return w
}

// live lets the reconcilers do as much as they want.
func (w *world) live() { w.left.Store(math.MaxInt64) }

// effect has an effect outside of the operator's process. The last one before the process is killed happens, and nobody learns
// of it.
func (w *world) effect(do func() error) error {
	switch left := w.left.Add(-1); {
	case left < 0:
		return errKilled
	case left == 0:
		_ = do() // the answer is lost
		return errKilled
	}
	return do()
}

// errKilled is what the calls of a killed process return; nobody sees it.
var errKilled = status.Error(codes.PermissionDenied, "the operator was killed")

// mortal makes the reconcilers' client of the API server.
func (w *world) mortal() kube.Client {
	return interceptor.NewClient(w.api, interceptor.Funcs{
		Create: func(ctx context.Context, c kube.WithWatch, o kube.Object, opts ...kube.CreateOption) error {
			return w.effect(func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c kube.WithWatch, o kube.Object, opts ...kube.UpdateOption) error {
			return w.effect(func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c kube.WithWatch, o kube.Object, p kube.Patch, opts ...kube.PatchOption) error {
			return w.effect(func() error { return c.Patch(ctx, o, p, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c kube.Client, sub string, o kube.Object, p kube.Patch, opts ...kube.SubResourcePatchOption) error {
			return w.effect(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
		List: w.list,
	})
}

// list finds bindings by what they name, if there is an index of them.
func (w *world) list(ctx context.Context, c kube.WithWatch, l kube.ObjectList, opts ...kube.ListOption) error {
	by := (&kube.ListOptions{}).ApplyOptions(opts)
	bindings, is := l.(*v1alpha1.QuorateBindingList)
	if w.identities == nil || !is || by.FieldSelector == nil {
		return c.List(ctx, l, opts...)
	}
	identity, _ := by.FieldSelector.RequiresExactMatch(indexIdentity)
	if b := w.identities[identity]; b != nil {
		bindings.Items = []v1alpha1.QuorateBinding{*b.DeepCopy()}
	}
	return nil
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
	if err := w.api.Create(w.t.Context(), o); err != nil {
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
