package topology

import (
	"fmt"
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

// The operator is killed after each of its effects on the broker and on the API server, without learning whether the last one
// happened, while it makes an object and while it deletes one. The next process makes it, or deletes it, and leaves nothing.
func TestKilledAfterEachEffect(t *testing.T) {
	w := newWorld(t)
	_, err := w.broker.DeclareQueue(t.Context(), client.Queue{Name: "there"})
	w.do(err)
	for kind, newOne := range map[string]func(name string) object{
		"queue": func(name string) object { return newQueue(name, `{"x-max-length": 5}`) },
		"exchange": func(name string) object {
			return &v1alpha1.QuorateExchange{ObjectMeta: inShop(name), Spec: v1alpha1.QuorateExchangeSpec{Cluster: main, Type: "topic"}}
		},
		"binding": func(name string) object {
			return &v1alpha1.QuorateBinding{ObjectMeta: inShop(name), Spec: v1alpha1.QuorateBindingSpec{Cluster: main, Source: "amq.topic", Destination: "there", RoutingKey: name}}
		},
		"policy": func(name string) object {
			return &v1alpha1.QuoratePolicy{ObjectMeta: inShop(name), Spec: v1alpha1.QuoratePolicySpec{Cluster: main, Pattern: "^none$", Definition: *json(`{"max-length": 5}`)}}
		},
		"user": func(name string) object {
			five := int64(5)
			return &v1alpha1.QuorateUser{ObjectMeta: inShop(name), Spec: v1alpha1.QuorateUserSpec{
				Cluster: main, Tags: []string{"monitoring"}, Limits: &v1alpha1.UserLimits{MaxQueues: &five},
			}}
		},
		"permission": func(name string) object {
			_, err := w.broker.ChangeUser(t.Context(), client.UserChange{Name: name, Create: true, Password: "of-nobody"})
			w.do(err)
			return &v1alpha1.QuoratePermission{ObjectMeta: inShop(name), Spec: v1alpha1.QuoratePermissionSpec{
				Cluster: main, User: name, Read: ".*", Topics: []v1alpha1.TopicPermission{{Exchange: "amq.topic", Write: "^a"}},
			}}
		},
	} {
		most := 0
		for effects, killed := 0, true; killed; effects++ {
			o := newOne(fmt.Sprintf("%s-%d", kind, effects))
			w.create(o)
			killed = w.dies(kind, o, effects)
			o = w.settles(kind, o)
			if o == nil {
				t.Fatalf("%s, killed after %d effects: the object is gone", kind, effects)
			}
			w.wants(o, v1alpha1.ConditionReady, reasonInBroker)
			w.do(w.api.Delete(t.Context(), o))
			killed = w.dies(kind, o, effects) || killed
			if o = w.settles(kind, o); o != nil {
				t.Errorf("%s, killed after %d effects of its deletion: %+v", kind, effects, o.Common())
			}
			w.isGone(kind, newOne(fmt.Sprintf("%s-%d", kind, effects)), effects)
			most = effects
		}
		if most < 3 {
			t.Errorf("%s: the operator was killed after at most %d effects", kind, most)
		}
	}
}

// dies lets an operator look at an object until it has had some effects, and reports whether it wanted to have more.
func (w *world) dies(kind string, o object, effects int) bool {
	w.left.Store(int64(effects))
	_, _ = w.kinds[kind].Reconcile(w.t.Context(), ctrl.Request{NamespacedName: kube.ObjectKeyFromObject(o)})
	killed := w.left.Load() <= 0
	w.live()
	w.restart()
	return killed
}

// settles lets a new operator look at an object as often as it wants to soon; nil: it is gone.
func (w *world) settles(kind string, o object) object {
	for range 5 {
		var after time.Duration
		if o, after = look(w, kind, o); o == nil || after > shortestWait {
			break
		}
	}
	return o
}

// isGone asks the broker whether it still has what an object stood for.
func (w *world) isGone(kind string, o object, effects int) {
	w.t.Helper()
	w.restart()
	var c v1alpha1.QuorateCluster
	w.do(w.api.Get(w.t.Context(), kube.ObjectKey{Namespace: "shop", Name: "main"}, &c))
	r := w.kinds[kind]
	x, _ := r.kind.read(o)
	if found, _, err := x.compare(w.t.Context(), r.session(o, &c)); err != nil || found {
		w.t.Errorf("%s, killed after %d effects of its deletion: the broker has the %s: %v, %v", kind, effects, x.words(), found, err)
	}
}
