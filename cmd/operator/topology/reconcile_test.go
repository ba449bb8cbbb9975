package topology

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/inventory"
	"github.com/quorate/quorate/cmd/operator/scope"
)

func json(text string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(text)} }

func newQueue(name, arguments string) *v1alpha1.QuorateQueue {
	return &v1alpha1.QuorateQueue{ObjectMeta: inShop(name), Spec: v1alpha1.QuorateQueueSpec{Cluster: main, Arguments: json(arguments)}}
}

// A queue is made, made again if somebody deletes it, and shown with each field if it is another one; nothing is
// deleted without the specification saying so.
func TestQueue(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	q := newQueue("orders", `{"x-max-length": 5}`)
	w.create(q)
	q, _ = look(w, "queue", q)
	w.wants(q, v1alpha1.ConditionReady, reasonInBroker, `queue "orders" in vhost "/"`)
	if found, err := w.broker.GetQueue(ctx, client.QueueRef{Name: "orders"}); err != nil || found.Type != "quorum" || found.Arguments["x-max-length"] != int64(5) {
		t.Fatalf("%+v, %v", found, err)
	}
	if e := w.happened(); !strings.Contains(e, "Created") {
		t.Errorf("events %s", e)
	}

	// Somebody deletes it, and somebody else declares it otherwise.
	_, err := w.broker.DeleteQueue(ctx, client.DeleteQueueRequest{Name: "orders"})
	w.do(err)
	_, err = w.broker.DeclareQueue(ctx, client.Queue{Name: "orders", Arguments: client.Table{"x-max-length": 7}})
	w.do(err)
	w.restart() // the next listing is due
	q, _ = look(w, "queue", q)
	w.wants(q, v1alpha1.ConditionReady, reasonDrifted, "arguments[x-max-length]: wanted 5, found 7", "QuoratePolicy", "quoratectl queues delete")
	w.wants(q, v1alpha1.ConditionDrifted, reasonDrifted, "arguments[x-max-length]: wanted 5, found 7")
	q, _ = look(w, "queue", q)
	if e := w.happened(); strings.Count(e, "Drifted") != 1 {
		t.Errorf("events %s: want one about the drift", e)
	}

	// Once it is gone, it is made as specified.
	_, err = w.broker.DeleteQueue(ctx, client.DeleteQueueRequest{Name: "orders"})
	w.do(err)
	w.restart()
	q, _ = look(w, "queue", q)
	w.wants(q, v1alpha1.ConditionReady, reasonInBroker)
	w.wants(q, v1alpha1.ConditionDrifted, "none")

	// With a message it is not deleted.
	_, err = w.broker.PublishOne(ctx, client.Message{RoutingKey: "orders", Body: []byte("one")})
	w.do(err)
	w.do(w.kube.Delete(ctx, q))
	q, after := look(w, "queue", q)
	if q == nil {
		t.Fatal("the object went while its queue has a message")
	}
	w.wants(q, v1alpha1.ConditionDeletionBlocked, reasonInUse, "spec.deletion to Always")
	if after < shortestWait {
		t.Errorf("the next look is after %v", after)
	}
	if _, err := w.broker.GetQueue(ctx, client.QueueRef{Name: "orders"}); err != nil {
		t.Fatal(err)
	}
	_, err = w.broker.PurgeQueue(ctx, client.QueueRef{Name: "orders"})
	w.do(err)
	if q, _ = look(w, "queue", q); q != nil {
		t.Errorf("the object stays: %+v", q.Status)
	}
	if _, err := w.broker.GetQueue(ctx, client.QueueRef{Name: "orders"}); client.ClassOf(err) != client.NotFound {
		t.Errorf("%v: want the queue gone", err)
	}
}

// The three ways to deal with a queue that has messages when its object is deleted.
func TestQueueDeletion(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	for deletion, stays := range map[v1alpha1.QueueDeletion]bool{v1alpha1.QueueDeletionAlways: false, v1alpha1.QueueDeletionRetain: true} {
		q := newQueue(strings.ToLower(string(deletion)), `{}`)
		q.Spec.Deletion = deletion
		w.create(q)
		q, _ = look(w, "queue", q)
		_, err := w.broker.PublishOne(ctx, client.Message{RoutingKey: q.Name, Body: []byte("one")})
		w.do(err)
		w.do(w.kube.Delete(ctx, q))
		name := q.Name
		if q, _ = look(w, "queue", q); q != nil {
			t.Errorf("%s: the object stays", deletion)
		}
		_, err = w.broker.GetQueue(ctx, client.QueueRef{Name: name})
		if (err == nil) != stays {
			t.Errorf("%s: %v", deletion, err)
		}
	}
	// The protection can be lifted while the object waits.
	q := newQueue("lifted", `{}`)
	w.create(q)
	q, _ = look(w, "queue", q)
	_, err := w.broker.PublishOne(ctx, client.Message{RoutingKey: "lifted", Body: []byte("one")})
	w.do(err)
	w.do(w.kube.Delete(ctx, q))
	q, _ = look(w, "queue", q)
	q.Spec.Deletion = v1alpha1.QueueDeletionRetain
	w.do(w.kube.Update(ctx, q))
	if q, _ = look(w, "queue", q); q != nil {
		t.Error("the object stays although its queue may")
	}
}

// Of two objects for one queue the older owns it. When that goes, nothing is deleted, and the younger takes over.
func TestTwoObjectsForOneQueue(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	old, young := newQueue("a-younger-name", `{}`), newQueue("b", `{"x-max-length": 5}`)
	old.Spec.Name, young.Spec.Name = "shared", "shared"
	old.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
	w.create(young)
	w.create(old)
	young, _ = look(w, "queue", young)
	w.wants(young, v1alpha1.ConditionReady, reasonConflict, "QuorateQueue shop/a-younger-name")
	if _, err := w.broker.GetQueue(ctx, client.QueueRef{Name: "shared"}); client.ClassOf(err) != client.NotFound {
		t.Errorf("%v: the younger object made the queue", err)
	}
	old, _ = look(w, "queue", old)
	w.wants(old, v1alpha1.ConditionReady, reasonInBroker)
	w.do(w.kube.Delete(ctx, old))
	young, _ = look(w, "queue", young)
	w.wants(young, v1alpha1.ConditionReady, reasonConflict)
	successors := w.kinds["queue"].successors(ctx, old)
	if old, _ = look(w, "queue", old); old != nil {
		t.Error("the older object stays")
	}
	if len(successors) != 2 {
		t.Errorf("successors %v", successors)
	}
	if _, err := w.broker.GetQueue(ctx, client.QueueRef{Name: "shared"}); err != nil {
		t.Errorf("%v: the queue went although another object names it", err)
	}
	young, _ = look(w, "queue", young)
	w.wants(young, v1alpha1.ConditionReady, reasonDrifted, "arguments[x-max-length]")
}

// Exchanges, bindings and policies are made, mended and removed.
func TestRouting(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	x := &v1alpha1.QuorateExchange{ObjectMeta: inShop("events"), Spec: v1alpha1.QuorateExchangeSpec{Cluster: main, Type: "topic"}}
	b := &v1alpha1.QuorateBinding{ObjectMeta: inShop("bound"), Spec: v1alpha1.QuorateBindingSpec{Cluster: main, Source: "events", Destination: "q", RoutingKey: "a.#"}}
	p := &v1alpha1.QuoratePolicy{ObjectMeta: inShop("limits"), Spec: v1alpha1.QuoratePolicySpec{Cluster: main, Pattern: "^q", Definition: *json(`{"max-length": 10}`)}}
	w.create(x)
	w.create(b)
	w.create(p)
	b, after := look(w, "binding", b) // before its exchange and queue are there
	w.wants(b, v1alpha1.ConditionReady, reasonRefused, "NOT_FOUND")
	if after > time.Minute {
		t.Errorf("the next look is after %v", after)
	}
	x, _ = look(w, "exchange", x)
	w.wants(x, v1alpha1.ConditionReady, reasonInBroker)
	q := newQueue("q", `{}`)
	w.create(q)
	look(w, "queue", q)
	b, _ = look(w, "binding", b)
	w.wants(b, v1alpha1.ConditionReady, reasonInBroker)
	p, _ = look(w, "policy", p)
	w.wants(p, v1alpha1.ConditionReady, reasonInBroker)
	w.happened()

	// Somebody changes the policy and unbinds.
	_, err := w.broker.PutPolicy(ctx, client.Policy{Name: "limits", Pattern: "^other", Definition: client.Table{"max-length": 99}})
	w.do(err)
	w.do(w.broker.Unbind(ctx, client.Binding{Source: "events", Destination: "q", RoutingKey: "a.#"}))
	w.restart()
	p, _ = look(w, "policy", p)
	w.wants(p, v1alpha1.ConditionReady, reasonInBroker)
	if e := w.happened(); !strings.Contains(e, `pattern: wanted "^q", found "^other"; definition[max-length]: wanted 10, found 99`) {
		t.Errorf("events %s", e)
	}
	b, _ = look(w, "binding", b)
	w.wants(b, v1alpha1.ConditionReady, reasonInBroker)
	policies, err := client.Collect(w.broker.Policies(ctx, "/"))
	if err != nil || len(policies) != 1 || policies[0].Pattern != "^q" {
		t.Errorf("%+v, %v", policies, err)
	}
	if bound := w.bound("events"); !slices.Equal(bound, []string{"q a.# map[]"}) {
		t.Errorf("bindings %q", bound)
	}

	// Other arguments are another binding; the former goes.
	b.Spec.Arguments, b.Generation = json(`{"own": 1}`), 2
	w.do(w.kube.Update(ctx, b))
	b, _ = look(w, "binding", b)
	if bound := w.bound("events"); !slices.Equal(bound, []string{"q a.# map[own:1]"}) {
		t.Errorf("bindings %q", bound)
	}
	b.Spec.Arguments, b.Generation = json(`{"own": 2}`), 3
	w.do(w.kube.Update(ctx, b))
	b, _ = look(w, "binding", b)
	if bound := w.bound("events"); !slices.Equal(bound, []string{"q a.# map[own:2]"}) {
		t.Errorf("bindings %q", bound)
	}

	// The exchange is protected while it has bindings.
	w.do(w.kube.Delete(ctx, x))
	x, _ = look(w, "exchange", x)
	w.wants(x, v1alpha1.ConditionDeletionBlocked, reasonInUse, "bindings")
	w.do(w.kube.Delete(ctx, b))
	if b, _ = look(w, "binding", b); b != nil {
		t.Error("the binding stays")
	}
	if bound := w.bound("events"); len(bound) > 0 {
		t.Errorf("bindings %q", bound)
	}
	if x, _ = look(w, "exchange", x); x != nil {
		t.Errorf("the exchange stays: %+v", x.Status)
	}
	w.do(w.kube.Delete(ctx, p))
	if p, _ = look(w, "policy", p); p != nil {
		t.Error("the policy stays")
	}
}

// A binding without arguments goes when its object gets some, or is deleted then, also if an earlier operator recorded nothing
// of it. One that the object has never made is somebody else's, and stays.
func TestBindingThatGetsArguments(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	_, err := w.broker.DeclareQueue(ctx, client.Queue{Name: "q"})
	w.do(err)
	for name, c := range map[string]struct {
		made, recorded, deleted bool // by its object; by the operator that made it; before the arguments are followed
		want                    []string
	}{
		"made":              {true, true, false, []string{"q made map[own:1]"}},
		"made-before":       {true, false, false, []string{"q made-before map[own:1]"}},
		"made-and-deleted":  {true, true, true, nil},
		"before-deleted":    {true, false, true, nil},
		"of-others":         {false, false, false, []string{"q of-others map[]", "q of-others map[own:1]"}},
		"of-others-deleted": {false, false, true, []string{"q of-others-deleted map[]"}},
	} {
		b := &v1alpha1.QuorateBinding{ObjectMeta: inShop(name), Spec: v1alpha1.QuorateBindingSpec{Cluster: main, Source: "amq.topic", Destination: "q", RoutingKey: name}}
		b.Finalizers = []string{Finalizer}
		w.create(b)
		if c.made {
			b, _ = look(w, "binding", b)
			w.wants(b, v1alpha1.ConditionReady, reasonInBroker)
		} else {
			w.do(w.broker.Bind(ctx, client.Binding{Source: "amq.topic", Destination: "q", RoutingKey: name}))
		}
		if !c.recorded {
			b.Status.Arguments = nil
			w.do(w.api.Status().Update(ctx, b))
		}
		b.Spec.Arguments, b.Generation = json(`{"own": 1}`), 2
		w.do(w.api.Update(ctx, b))
		if c.deleted {
			w.do(w.api.Delete(ctx, b))
		}
		b, _ = look(w, "binding", b)
		if b == nil != c.deleted {
			t.Errorf("%s: the object is %+v", name, b)
		}
		var bound []string
		for _, one := range w.bound("amq.topic") {
			if strings.Fields(one)[1] == name {
				bound = append(bound, one)
			}
		}
		if slices.Sort(bound); !slices.Equal(bound, c.want) {
			t.Errorf("%s: bindings %q, want %q", name, bound, c.want)
		}
	}
}

// bound lists the bindings of an exchange.
func (w *world) bound(source string) (out []string) {
	for b, err := range w.broker.Bindings(w.t.Context(), "/") {
		w.do(err)
		if b.Source == source {
			out = append(out, fmt.Sprintf("%s %s %v", b.Destination, b.RoutingKey, map[string]any(b.Arguments)))
		}
	}
	return out
}

// login reports whether a user can log in.
func (w *world) login(user, password string) bool {
	c, err := client.New(client.Config{Addresses: w.nodes.Addresses(), Username: user, Password: password, CallTimeout: 5 * time.Second})
	w.do(err)
	defer c.Close()
	_, err = c.WhoAmI(w.t.Context())
	return err == nil
}

// A user gets a password that the operator makes, or the one of a Secret; a change of it is followed, tags and rights are
// put back.
func TestUser(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	five := int64(5)
	u := &v1alpha1.QuorateUser{ObjectMeta: inShop("app"), Spec: v1alpha1.QuorateUserSpec{Cluster: main, Tags: []string{"monitoring"}, Limits: &v1alpha1.UserLimits{MaxQueues: &five}}}
	w.create(u)
	u, _ = look(w, "user", u)
	w.wants(u, v1alpha1.ConditionReady, reasonInBroker)
	var made corev1.Secret
	w.do(w.kube.Get(ctx, kube.ObjectKey{Namespace: "shop", Name: "app-user"}, &made))
	password := string(made.Data["password"])
	if !metav1.IsControlledBy(&made, u) || len(password) != 32 || !w.login("app", password) {
		t.Errorf("secret %+v: the password does not log in", made.ObjectMeta)
	}

	p := &v1alpha1.QuoratePermission{ObjectMeta: inShop("app"), Spec: v1alpha1.QuoratePermissionSpec{
		Cluster: main, User: "app", Read: "^app", Topics: []v1alpha1.TopicPermission{{Exchange: "amq.topic", Write: "^a"}},
	}}
	w.create(p)
	p, _ = look(w, "permission", p)
	w.wants(p, v1alpha1.ConditionReady, reasonInBroker)
	if order := w.rights.Load(); order != " SetTopicPermission SetPermission" { // never more than is wanted, not even in between
		t.Errorf("the calls were%v", order)
	}

	// Somebody takes the tag, the limit and the rights.
	_, err := w.broker.ChangeUser(ctx, client.UserChange{Name: "app", Tags: []string{"administrator"}})
	w.do(err)
	w.do(w.broker.SetUserLimits(ctx, client.SetUserLimitsRequest{Name: "app"}))
	_, err = w.broker.SetPermission(ctx, client.Permission{User: "app", VHost: "/", Configure: ".*", Write: ".*", Read: ".*"})
	w.do(err)
	_, err = w.broker.ClearTopicPermission(ctx, client.TopicPermissionRef{User: "app", VHost: "/"})
	w.do(err)
	w.happened()
	w.restart()
	u, _ = look(w, "user", u)
	p, _ = look(w, "permission", p)
	w.wants(p, v1alpha1.ConditionReady, reasonInBroker)
	if e := w.happened(); strings.Count(e, "Mended") != 2 || !strings.Contains(e, `tags: wanted "monitoring", found "administrator"; limits.maxQueues: wanted 5, found no limit`) {
		t.Errorf("events %s", e)
	}
	rights, err := client.Collect(w.broker.Permissions(ctx, client.ListPermissionsRequest{User: "app"}))
	topics, err2 := client.Collect(w.broker.TopicPermissions(ctx, client.ListPermissionsRequest{User: "app"}))
	if err != nil || err2 != nil || len(rights) != 1 || rights[0].Configure != "" || rights[0].Read != "^app" || len(topics) != 1 {
		t.Errorf("%+v, %+v, %v, %v", rights, topics, err, err2)
	}

	// Another password, in a Secret that somebody else made.
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "chosen", UID: "s1"}, Data: map[string][]byte{"password": []byte("first-password")}})
	u.Spec.Password, u.Generation = &v1alpha1.PasswordSource{Name: "chosen"}, 2
	w.do(w.kube.Update(ctx, u))
	u, _ = look(w, "user", u)
	if !w.login("app", "first-password") {
		t.Error("the chosen password does not log in")
	}
	var chosen corev1.Secret
	w.do(w.kube.Get(ctx, kube.ObjectKey{Namespace: "shop", Name: "chosen"}, &chosen))
	chosen.Data["password"] = []byte("second-password")
	w.do(w.kube.Update(ctx, &chosen))
	if asked := w.kinds["user"].withSecret(ctx, &chosen); len(asked) != 1 {
		t.Errorf("a change of the Secret asks for looks at %v", asked)
	}
	u, _ = look(w, "user", u)
	if !w.login("app", "second-password") || w.login("app", "first-password") {
		t.Error("the change of the password was not followed")
	}
	calls := w.calls.Load()
	u, _ = look(w, "user", u)
	if n := w.calls.Load() - calls; n != 0 {
		t.Errorf("%d calls for a user that nobody touched", n)
	}

	w.do(w.kube.Delete(ctx, p))
	w.do(w.kube.Delete(ctx, u))
	if u, _ = look(w, "user", u); u != nil || w.login("app", "second-password") {
		t.Error("the user stays")
	}
	if p, _ = look(w, "permission", p); p != nil { // its user is gone: there is nothing to take
		t.Errorf("the permission stays: %+v", p.Status)
	}
}

// The operator does not take over the user as whom it logs in, nor a Secret that it did not make.
func TestUserIsRefused(t *testing.T) {
	w := newWorld(t)
	own := &v1alpha1.QuorateUser{ObjectMeta: inShop("guest"), Spec: v1alpha1.QuorateUserSpec{Cluster: main}}
	w.create(own)
	own, _ = look(w, "user", own)
	w.wants(own, v1alpha1.ConditionReady, reasonRefused, "the operator itself logs in")
	w.do(w.kube.Delete(t.Context(), own))
	if own, _ = look(w, "user", own); own != nil || !w.login("guest", "guest") {
		t.Error("the object of the operator's own user stays, or the user went")
	}
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "x-user"}, Data: map[string][]byte{"password": []byte("p")}})
	x := &v1alpha1.QuorateUser{ObjectMeta: inShop("x"), Spec: v1alpha1.QuorateUserSpec{Cluster: main}}
	w.create(x)
	x, _ = look(w, "user", x)
	w.wants(x, v1alpha1.ConditionReady, reasonRefused, `Secret "x-user"`, "spec.password")
	y := &v1alpha1.QuorateUser{ObjectMeta: inShop("y"), Spec: v1alpha1.QuorateUserSpec{Cluster: main, Password: &v1alpha1.PasswordSource{Name: "none"}}}
	w.create(y)
	y, _ = look(w, "user", y)
	w.wants(y, v1alpha1.ConditionReady, reasonRefused, `there is no Secret "none"`)
}

// What is wrong with the cluster is said, and no object waits for a cluster that is gone.
func TestWithoutCluster(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	lost := newQueue("lost", `{}`)
	lost.Spec.Cluster.Name = "other"
	w.create(lost)
	lost, _ = look(w, "queue", lost)
	w.wants(lost, v1alpha1.ConditionReady, reasonNoCluster, `"shop/other"`)
	w.do(w.kube.Delete(ctx, lost))
	if lost, _ = look(w, "queue", lost); lost != nil {
		t.Error("an object of a cluster that is not there stays")
	}

	far := newQueue("far", `{}`)
	far.Namespace, far.Spec.Cluster.Namespace = "team", "shop"
	w.create(far)
	far, _ = look(w, "queue", far)
	w.wants(far, v1alpha1.ConditionReady, scope.NamespaceNotAllowed, `namespace "team"`, "allowedNamespaces")
	w.allow(v1alpha1.NamespaceScope{Namespace: "team", VHosts: []string{"/"}})
	far, _ = look(w, "queue", far)
	w.wants(far, v1alpha1.ConditionReady, reasonInBroker)

	w.do(w.kube.Delete(ctx, &v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "main"}}))
	w.do(w.kube.Delete(ctx, far))
	if far, _ = look(w, "queue", far); far != nil {
		t.Error("an object of a cluster that went stays")
	}

	bad := newQueue("bad", `{"x-max-length": -1}`)
	w.create(bad)
	bad, after := look(w, "queue", bad)
	w.wants(bad, v1alpha1.ConditionReady, reasonInvalid, "spec.arguments[x-max-length]", "out of range")
	if after != 0 {
		t.Errorf("the next look at a specification with faults is after %v", after)
	}
}

// While no node answers, the objects of the cluster wait and say so, and cost no time of others; then they continue.
func TestClusterDown(t *testing.T) {
	w := newWorld(t)
	q := newQueue("q", `{}`)
	w.create(q)
	q, _ = look(w, "queue", q)
	w.nodes.Kill(0)
	late := newQueue("late", `{}`)
	w.create(late)
	late, after := look(w, "queue", late)
	w.wants(late, v1alpha1.ConditionReady, reasonUnavailable, "does not answer")
	if after <= 0 {
		t.Error("nobody looks again")
	}
	// As long as the cluster is left alone, looks ask nobody. The longer it is silent, the longer that is.
	calls, asked := w.calls.Load(), 0
	for i := range 100 {
		x := newQueue(fmt.Sprint("x", i), `{}`)
		w.create(x)
		look(w, "queue", x)
		if now := w.calls.Load(); now != calls {
			calls, asked = now, asked+1
		}
	}
	if asked > 10 {
		t.Errorf("%d of 100 looks asked a cluster that does not answer", asked)
	}
	w.do(w.kube.Delete(t.Context(), q))
	q, _ = look(w, "queue", q)
	w.wants(q, v1alpha1.ConditionDeletionBlocked, reasonUnavailable, "spec.deletion to Retain")
	w.nodes.Restart(0)
	w.shared.of(&v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "main", UID: "main"}}).inventory.Breaker.Reset()
	late, _ = look(w, "queue", late)
	w.wants(late, v1alpha1.ConditionReady, reasonInBroker)
	if q, _ = look(w, "queue", q); q != nil {
		t.Errorf("the object stays: %+v", q.Status)
	}
}

// A thousand objects are made by a call each. As long as nobody touches them, looking at all of them costs one listing,
// and writes no status.
func TestThousand(t *testing.T) {
	if testing.Short() {
		t.Skip("declares a thousand queues")
	}
	const n = 1000
	w := newWorld(t)
	all := make([]*v1alpha1.QuorateQueue, n)
	for i := range all {
		all[i] = newQueue(fmt.Sprintf("q-%04d", i), `{}`)
		w.create(all[i])
		all[i], _ = look(w, "queue", all[i])
	}
	for _, q := range all {
		w.wants(q, v1alpha1.ConditionReady, reasonInBroker)
	}
	w.restart()
	w.kinds["queue"].resync = time.Hour // no listing is too old, however slow the machine is
	look(w, "queue", all[0])            // writes the leader, which no object had when it was made
	calls := w.calls.Load()
	for _, q := range all {
		look(w, "queue", q)
	}
	version := make([]string, n)
	for i, q := range all {
		all[i], _ = look(w, "queue", q)
		version[i] = all[i].ResourceVersion
	}
	for i, q := range all {
		if q, _ = look(w, "queue", q); q.ResourceVersion != version[i] {
			t.Fatalf("%s was written although nothing has changed", q.Name)
		}
	}
	if c := w.calls.Load() - calls; c > 10 {
		t.Errorf("%d calls for %d looks at objects that nobody touched", c, 3*n)
	}
}

// An operator that is killed after the call to the broker and before the status, or between the finalizer and the call,
// continues correctly.
func TestKilledHalfWay(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	made := newQueue("made", `{}`) // the broker has it, the status does not say so
	_, err := w.broker.DeclareQueue(ctx, client.Queue{Name: "made"})
	w.do(err)
	w.create(made)
	made, _ = look(w, "queue", made)
	w.wants(made, v1alpha1.ConditionReady, reasonInBroker)

	w.do(w.kube.Delete(ctx, made))
	_, err = w.broker.DeleteQueue(ctx, client.DeleteQueueRequest{Name: "made"}) // deleted, and the finalizer is still there
	w.do(err)
	w.restart()
	if made, _ = look(w, "queue", made); made != nil {
		t.Error("the object stays")
	}

	// The Secret was made, the user was not.
	u := &v1alpha1.QuorateUser{ObjectMeta: inShop("half"), Spec: v1alpha1.QuorateUserSpec{Cluster: main}}
	w.create(u)
	s := &session{object: u, kube: w.kube, secrets: w.kube, inventory: inventory.New(nil)}
	x, _ := readUser(u)
	if _, _, err := as[user](x).password(ctx, s, u); err != nil {
		t.Fatal(err)
	}
	u, _ = look(w, "user", u)
	w.wants(u, v1alpha1.ConditionReady, reasonInBroker)
}
