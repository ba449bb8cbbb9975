package topology

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

// unasked are the Brokers of a test in which the broker has to do nothing; they count who asks nevertheless.
type unasked int

func (n *unasked) Of(context.Context, *v1alpha1.QuorateCluster) (*client.Client, error) {
	*n++
	return nil, errors.New("the broker is not there")
}

// alone returns the reconciler of a kind over an API server in memory, without a broker: for what is decided before one is
// asked.
func alone(t *testing.T, kind string, there ...kube.Object) (*reconciler, *unasked, *events.FakeRecorder) {
	t.Helper()
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	k := kinds()[kind]
	b := fake.NewClientBuilder().WithScheme(s).WithStatusSubresource(k.object()).WithObjects(there...)
	if err := addIndexes(t.Context(), indexes{b}, k); err != nil {
		t.Fatal(err)
	}
	c, n, recorder := b.Build(), new(unasked), events.NewFakeRecorder(100)
	return &reconciler{kind: k, kube: c, secrets: c, versions: c, recorder: recorder, clusters: newClusters(n), resync: time.Minute}, n, recorder
}

// sharedUsers returns a cluster that allows namespace team some users without tags.
func sharedUsers() *v1alpha1.QuorateCluster {
	c := &v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "main", UID: "main"}}
	c.Spec.Topology.AllowedNamespaces = []v1alpha1.NamespaceScope{{Namespace: "team", Users: []string{"orders-*"}}}
	return c
}

// An object that was never carried out, because it gives a tag that is not allowed, deletes no user: the user is somebody
// else's. One that was carried out deletes it, though its tag is no longer allowed.
func TestNeverCarriedOut(t *testing.T) {
	for version, asks := range map[string]bool{"": false, "uid/1": true} {
		u := &v1alpha1.QuorateUser{ObjectMeta: ofTeam("orders-root"), Spec: v1alpha1.QuorateUserSpec{Cluster: far, Tags: []string{"administrator"}}}
		u.Finalizers, u.Status.PasswordVersion = []string{Finalizer}, version
		r, n, recorder := alone(t, "user", sharedUsers(), u)
		if err := r.kube.Delete(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: kube.ObjectKeyFromObject(u)}); err != nil {
			t.Fatal(err)
		}
		err := r.kube.Get(t.Context(), kube.ObjectKeyFromObject(u), u)
		if there := err == nil; there != asks || *n > 0 != asks {
			t.Errorf("password version %q: the object is there: %v, the broker was asked %d times", version, there, *n)
		}
		if asks {
			continue
		}
		if e := <-recorder.Events; !strings.Contains(e, "nothing was deleted in the broker") || !strings.Contains(e, `tag "administrator"`) {
			t.Errorf("the event says %q", e)
		}
	}
}

// An older object with faults does not own what it names, nor is it there for that when the younger one is deleted. One
// without owns it, and is looked at again, because faults may come later.
func TestFaultsOwnNothing(t *testing.T) {
	for arguments, owned := range map[string]bool{`{"x-max-length": 5}`: true, `{"x-max-length": -5}`: false} {
		old, young := newQueue("old", arguments), newQueue("young", `{}`)
		old.Spec.Name, young.Spec.Name = "shared", "shared"
		old.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
		r, n, _ := alone(t, "queue", sharedUsers(), old, young)
		out, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: kube.ObjectKeyFromObject(young)})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.kube.Get(t.Context(), kube.ObjectKeyFromObject(young), young); err != nil {
			t.Fatal(err)
		}
		c := meta.FindStatusCondition(young.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Reason == reasonConflict != owned || *n == 0 != owned {
			t.Errorf("%s: %+v, the broker was asked %d times", arguments, c, *n)
		}
		if out.RequeueAfter == 0 || owned && out.RequeueAfter < r.resync/2 {
			t.Errorf("%s: the next look is after %v", arguments, out.RequeueAfter)
		}
		asked := *n
		if err := r.kube.Delete(t.Context(), young); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: kube.ObjectKeyFromObject(young)}); err != nil {
			t.Fatal(err)
		}
		// The older object may have been carried out before it got faults: the queue is its, too.
		if err := r.kube.Get(t.Context(), kube.ObjectKeyFromObject(young), young); err == nil || *n != asked {
			t.Errorf("%s: the younger object stays (%v), or the broker was asked to delete the queue", arguments, err)
		}
	}
}
