package topology

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/scope"
)

// allow puts entries for other namespaces into the world's cluster.
func (w *world) allow(entries ...v1alpha1.NamespaceScope) {
	w.t.Helper()
	var c v1alpha1.QuorateCluster
	w.do(w.kube.Get(w.t.Context(), kube.ObjectKey{Namespace: "shop", Name: "main"}, &c))
	c.Spec.Topology.AllowedNamespaces = entries
	w.do(w.kube.Update(w.t.Context(), &c))
}

// ofTeam are the metadata of an object in another namespace, and far its reference to the cluster.
func ofTeam(name string) metav1.ObjectMeta {
	m := inShop(name)
	m.Namespace = "team"
	return m
}

var far = v1alpha1.ClusterReference{Namespace: "shop", Name: "main"}

// Who may write objects in an allowed namespace has what the cluster's entry names, and does not become an administrator: not
// by a user with that tag, nor by the password of one that exists, nor by policies or permissions elsewhere.
func TestAllowedNamespaceIsNoAdministrator(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	_, err := w.broker.ChangeUser(ctx, client.UserChange{Name: "ops", Create: true, Tags: []string{"administrator"}, Password: "of-the-platform"})
	w.do(err)
	_, err = w.broker.PutVHost(ctx, client.VHost{Name: "orders"})
	w.do(err)
	w.allow(v1alpha1.NamespaceScope{Namespace: "team", VHosts: []string{"orders"}, Users: []string{"orders-*"}, Tags: []string{"management"}})

	root := &v1alpha1.QuorateUser{ObjectMeta: ofTeam("orders-root"), Spec: v1alpha1.QuorateUserSpec{Cluster: far, Tags: []string{"administrator"}}}
	taken := &v1alpha1.QuorateUser{ObjectMeta: ofTeam("taken"), Spec: v1alpha1.QuorateUserSpec{Cluster: far, Name: "ops"}}
	grab := &v1alpha1.QuoratePermission{ObjectMeta: ofTeam("grab"), Spec: v1alpha1.QuoratePermissionSpec{Cluster: far, VHost: "/", User: "orders-app", Read: ".*"}}
	lift := &v1alpha1.QuoratePolicy{ObjectMeta: ofTeam("lift"), Spec: v1alpha1.QuoratePolicySpec{
		Cluster: far, VHost: "orders", Operator: true, Pattern: ".*", Definition: *json(`{"max-length": 5}`),
	}}
	elsewhere := &v1alpha1.QuoratePolicy{ObjectMeta: ofTeam("elsewhere"), Spec: v1alpha1.QuoratePolicySpec{
		Cluster: far, VHost: "/", Pattern: ".*", Definition: *json(`{"max-length": 5}`),
	}}
	w.refuses("user", root, scope.TagNotAllowed, `tag "administrator"`)
	w.refuses("user", taken, scope.UserNotAllowed, `user "ops"`)
	w.refuses("permission", grab, scope.VHostNotAllowed, `vhost "/"`)
	w.refuses("policy", lift, scope.AdministratorOnly, "operator policies")
	w.refuses("policy", elsewhere, scope.VHostNotAllowed, `vhost "/"`)
	users, err := client.Collect(w.broker.Users(ctx))
	w.do(err)
	if slices.ContainsFunc(users, func(u client.UserInfo) bool { return u.Name == "orders-root" }) || !w.login("ops", "of-the-platform") {
		t.Errorf("users %+v: one was made, or changed", users)
	}
	for _, vhost := range []string{"/", "orders"} {
		if policies, err := client.Collect(w.broker.Policies(ctx, vhost)); err != nil || len(policies) > 0 {
			t.Errorf("policies in %q: %+v, %v", vhost, policies, err)
		}
	}

	// What is in scope is made.
	app := &v1alpha1.QuorateUser{ObjectMeta: ofTeam("orders-app"), Spec: v1alpha1.QuorateUserSpec{Cluster: far, Tags: []string{"management"}}}
	right := &v1alpha1.QuoratePermission{ObjectMeta: ofTeam("right"), Spec: v1alpha1.QuoratePermissionSpec{Cluster: far, VHost: "orders", User: "orders-app", Read: ".*"}}
	w.create(app)
	w.create(right)
	app, _ = look(w, "user", app)
	w.wants(app, v1alpha1.ConditionReady, reasonInBroker)
	right, _ = look(w, "permission", right)
	w.wants(right, v1alpha1.ConditionReady, reasonInBroker)

	// The deletion of what is out of scope deletes nothing.
	w.happened()
	w.do(w.kube.Delete(ctx, taken))
	if taken, _ = look(w, "user", taken); taken != nil || !w.login("ops", "of-the-platform") {
		t.Error("the object stays, or the user went with it")
	}
	if e := w.happened(); !strings.Contains(e, "nothing was deleted in the broker") {
		t.Errorf("events %s", e)
	}
	// A user whose tag is no longer allowed can still be deleted.
	w.allow(v1alpha1.NamespaceScope{Namespace: "team", Users: []string{"orders-*"}})
	app, _ = look(w, "user", app)
	w.wants(app, v1alpha1.ConditionReady, scope.TagNotAllowed, `tag "management"`)
	w.do(w.kube.Delete(ctx, app))
	app, _ = look(w, "user", app)
	if users, err = client.Collect(w.broker.Users(ctx)); err != nil || app != nil || slices.ContainsFunc(users, func(u client.UserInfo) bool { return u.Name == "orders-app" }) {
		t.Errorf("users %+v, %v", users, err)
	}
}

// refuses creates an object that is out of scope, and looks at its condition.
func (w *world) refuses(kind string, o object, reason string, parts ...string) {
	w.t.Helper()
	w.create(o)
	o, after := look(w, kind, o)
	w.wants(o, v1alpha1.ConditionReady, reason, append(parts, `QuorateCluster "shop/main"`, `namespace "team"`, "spec.topology.allowedNamespaces")...)
	if after != 0 {
		w.t.Errorf("%s: the next look is after %v; a change of the cluster causes it", o.GetName(), after)
	}
}

// An older object that may not describe a queue does not keep the one that may from it.
func TestOutOfScopeOwnsNothing(t *testing.T) {
	w := newWorld(t)
	w.allow(v1alpha1.NamespaceScope{Namespace: "team", VHosts: []string{"orders"}})
	squatter, q := newQueue("squatter", `{}`), newQueue("q", `{}`)
	squatter.Namespace, squatter.Spec.Cluster, squatter.Spec.Name = "team", far, "q"
	squatter.CreationTimestamp.Time = squatter.CreationTimestamp.AddDate(-1, 0, 0)
	w.create(squatter)
	w.create(q)
	q, _ = look(w, "queue", q)
	w.wants(q, v1alpha1.ConditionReady, reasonInBroker)
	w.do(w.kube.Delete(t.Context(), q))
	q, _ = look(w, "queue", q)
	if _, err := w.broker.GetQueue(t.Context(), client.QueueRef{Name: "q"}); q != nil || client.ClassOf(err) != client.NotFound {
		t.Errorf("%v: the queue stays for an object that may not have it", err)
	}
}
