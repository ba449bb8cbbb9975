package topology

import (
	stdjson "encoding/json"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

// manyBindings makes n bindings in the broker by one import, and an object for each, which an earlier operator has made.
func manyBindings(w *world, n int) []*v1alpha1.QuorateBinding {
	w.t.Helper()
	type definition map[string]any
	all := definition{"queues": []definition{{"name": "there", "vhost": "/", "durable": true, "auto_delete": false, "arguments": definition{}}}}
	bindings, objects := make([]definition, n), make([]*v1alpha1.QuorateBinding, n)
	w.identities = map[string]*v1alpha1.QuorateBinding{}
	for i := range n {
		key := fmt.Sprintf("k.%05d", i)
		bindings[i] = definition{"source": "amq.topic", "vhost": "/", "destination": "there", "destination_type": "queue", "routing_key": key, "arguments": definition{}}
		o := &v1alpha1.QuorateBinding{ObjectMeta: inShop(key), Spec: v1alpha1.QuorateBindingSpec{Cluster: main, Source: "amq.topic", Destination: "there", RoutingKey: key}}
		o.Finalizers = []string{Finalizer}
		w.create(o)
		o.Status.ObservedGeneration = 1
		meta.SetStatusCondition(&o.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: reasonInBroker, ObservedGeneration: 1,
			Message: fmt.Sprintf("the broker has the binding %q → %q with key %q in vhost %q", "amq.topic", "there", key, "/"),
		})
		w.do(w.api.Status().Update(w.t.Context(), o))
		objects[i] = o
		w.identities[w.kinds["binding"].kind.identity(o)] = o
	}
	all["bindings"] = bindings
	text, err := stdjson.Marshal(all)
	w.do(err)
	_, err = w.broker.ImportDefinitions(w.t.Context(), client.ImportDefinitionsRequest{Document: text})
	w.do(err)
	return objects
}

// An operator that starts looks at ten thousand objects that nobody has touched: the broker is asked for one listing, no
// object is written, and what is kept of each is small.
func TestTenThousand(t *testing.T) {
	if testing.Short() {
		t.Skip("makes ten thousand objects")
	}
	const n = 10_000
	w := newWorld(t)
	all := manyBindings(w, n)
	w.restart()
	w.kinds["binding"].resync = time.Hour // no listing is too old, however slow the machine is
	before := heap()
	calls, begun := w.calls.Load(), time.Now()
	w.lookAtAll(all)
	spent, asked := time.Since(begun), w.calls.Load()-calls
	runtime.KeepAlive(w.shared)
	kept := (int64(heap()) - int64(before)) / n
	t.Logf("%d looks took %v with %d workers, %d calls, and keep %d bytes for each object", n, spent.Round(time.Millisecond), defaultWorkers, asked, kept)
	if asked > n/100 {
		t.Errorf("%d calls for %d objects that nobody touched", asked, n)
	}
	if kept > 2048 {
		t.Errorf("%d bytes are kept for each object", kept)
	}
	for _, o := range all[:100] {
		var now v1alpha1.QuorateBinding
		if w.do(w.api.Get(t.Context(), kube.ObjectKeyFromObject(o), &now)); now.ResourceVersion != o.ResourceVersion {
			t.Errorf("%s was written although nothing has changed: %+v", o.Name, now.Status)
		}
	}
}

// A user costs two calls, for itself and its limits, and a queue one; who the operator itself is, it asks once.
func TestCallsForEachObject(t *testing.T) {
	w := newWorld(t)
	for kind, c := range map[string]struct {
		newOne func(name string) object
		each   int64
	}{
		"queue": {func(name string) object { return newQueue(name, `{}`) }, 1},
		"user": {func(name string) object {
			return &v1alpha1.QuorateUser{ObjectMeta: inShop(name), Spec: v1alpha1.QuorateUserSpec{Cluster: main}}
		}, 2},
	} {
		const n = 20
		before := w.calls.Load()
		for i := range n {
			o := c.newOne(fmt.Sprint(kind, i))
			w.create(o)
			o, _ = look(w, kind, o)
			w.wants(o, v1alpha1.ConditionReady, reasonInBroker)
		}
		if calls := w.calls.Load() - before; calls < n*c.each || calls > n*c.each+2 {
			t.Errorf("%s: %d calls for %d objects, want %d for each", kind, calls, n, c.each)
		}
	}
}

// lookAtAll reconciles all objects once, with as many workers as a controller has.
func (w *world) lookAtAll(all []*v1alpha1.QuorateBinding) {
	next := make(chan *v1alpha1.QuorateBinding)
	var workers sync.WaitGroup
	for range defaultWorkers {
		workers.Go(func() {
			for o := range next {
				if _, err := w.kinds["binding"].Reconcile(w.t.Context(), ctrl.Request{NamespacedName: kube.ObjectKeyFromObject(o)}); err != nil {
					w.t.Error(err)
				}
			}
		})
	}
	for _, o := range all {
		next <- o
	}
	close(next)
	workers.Wait()
}

// heap returns the bytes that are in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
