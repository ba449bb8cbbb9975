package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/internal/testcluster"
)

// until lets the operator and the machine work until a condition holds.
func (m *machine) until(pass func(context.Context), what string, ok func(q *v1alpha1.QuorateCluster) error) {
	m.t.Helper()
	ctx := m.t.Context()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		pass(ctx)
		m.work(ctx)
		var q v1alpha1.QuorateCluster
		m.must(m.kube.Get(ctx, m.name, &q))
		err := ok(&q)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("not in time: %s: %v; step %q, conditions %+v", what, err, q.Status.Step, q.Status.Conditions)
		}
	}
}

// ready reports whether a cluster is ready and settled.
func ready(q *v1alpha1.QuorateCluster) error {
	if !meta.IsStatusConditionTrue(q.Status.Conditions, v1alpha1.ConditionReady) || !meta.IsStatusConditionFalse(q.Status.Conditions, v1alpha1.ConditionProgressing) {
		return errors.New("it is not ready and settled")
	}
	return nil
}

// begin makes the object of a cluster of n nodes, whose specification may be changed first, and an operator.
func begin(t *testing.T, c kube.Client, n int, change func(*v1alpha1.QuorateClusterSpec)) (*machine, func(context.Context)) {
	t.Helper()
	m := &machine{t: t, kube: c, nodes: testcluster.Start(t, n), name: types.NamespacedName{Namespace: "default", Name: "node"}, down: map[int]bool{}, began: map[int]bool{}}
	m.forward(n)
	m.must(c.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "login", Namespace: "default"},
		Data:       map[string][]byte{"username": []byte(client.DefaultUser), "password": []byte(client.DefaultUser)},
	}))
	q := &v1alpha1.QuorateCluster{ObjectMeta: metav1.ObjectMeta{Name: "node", Namespace: "default"}}
	q.Spec.Storage.Size = "1Gi" // which no API server in memory puts in
	q.Spec.Replicas, q.Spec.Secrets.Administrator = int32(n), "login"
	if change != nil {
		change(&q.Spec)
	}
	m.must(c.Create(t.Context(), q))
	return m, m.operator()
}

// found makes a cluster of n nodes and waits until the operator has settled it.
func found(t *testing.T, n int) (*machine, func(context.Context), *client.Client) {
	t.Helper()
	m, pass := begin(t, either(t), n, nil)
	ctx := t.Context()
	m.until(pass, "all nodes are ready", ready)
	cl, err := client.Dial(ctx, client.Config{Addresses: m.nodes.Addrs()[:n-1]})
	m.must(err)
	t.Cleanup(cl.Close)
	for i := range 12 {
		_, err := cl.DeclareQueue(ctx, client.Queue{Name: fmt.Sprintf("q%d", i)})
		m.must(err)
	}
	return m, pass, cl
}

// scale asks for a number of nodes.
func (m *machine) scale(n int32) {
	m.t.Helper()
	m.change(func(s *v1alpha1.QuorateClusterSpec) { s.Replicas = n })
}

// movedOff makes sure that each queue has three members, and none on a node.
func (m *machine) movedOff(cl *client.Client, node string) {
	m.t.Helper()
	for q, err := range cl.Queues(m.t.Context(), client.ListQueuesRequest{}) {
		m.must(err)
		if slices.Contains(q.Members, node) || len(q.Members) != 3 {
			m.t.Errorf("queue %q has the members %q", q.Name, q.Members)
		}
	}
}

// Under load four nodes become three: the members of queues move, the cluster forgets the node, then its pod ends. Its claim
// is given up, and deleted when the node comes again, as a new one. What was confirmed is there.
func TestScaleDown(t *testing.T) {
	if testing.Short() {
		t.Skip("starts four nodes")
	}
	m, pass, cl := found(t, 4)
	ctx := t.Context()
	confirmed, stop := publish(t, cl)
	defer stop()
	m.scale(3)
	m.until(pass, "three nodes are left", func(q *v1alpha1.QuorateCluster) error {
		if _, registered := nodesOf(ctx, t, cl)["node-3"]; registered && q.Status.Replicas == 3 && m.down[3] {
			for q, err := range cl.Queues(ctx, client.ListQueuesRequest{}) {
				if m.must(err); slices.Contains(q.Members, "node-3") {
					t.Fatalf("the pod ended while queue %q had a member there", q.Name)
				}
			}
		}
		if q.Status.Replicas != 3 || !m.down[3] {
			return fmt.Errorf("status %+v", q.Status.Nodes)
		}
		return ready(q)
	})
	m.movedOff(cl, "node-3")
	var claim corev1.PersistentVolumeClaim
	where := types.NamespacedName{Namespace: "default", Name: "data-node-3"}
	m.must(m.kube.Get(ctx, where, &claim))
	if claim.Annotations[givenUp] == "" {
		t.Error("the claim of the node that was removed is not marked")
	}
	// No controller of volumes runs here that would let a claim go which no pod uses.
	m.until(m.releasing(pass, where), "four nodes are there again", func(q *v1alpha1.QuorateCluster) error {
		if q.Spec.Replicas == 3 {
			m.scale(4)
			return errors.New("four nodes are asked for now")
		}
		if n := nodesOf(ctx, t, cl)["node-3"]; q.Status.Replicas != 4 || !n.Connected {
			return fmt.Errorf("status %+v, node %+v", q.Status, n)
		}
		return ready(q)
	})
	m.nodes.AwaitReady(3)
	stop()
	consume(ctx, t, cl, confirmed.Load())
}

// releasing adds to a pass that a claim which is being deleted goes.
func (m *machine) releasing(pass func(context.Context), claim types.NamespacedName) func(context.Context) {
	return func(ctx context.Context) {
		pass(ctx)
		var c corev1.PersistentVolumeClaim
		if err := m.kube.Get(ctx, claim, &c); err == nil && c.DeletionTimestamp != nil && len(c.Finalizers) > 0 {
			c.Finalizers = nil
			m.must(m.kube.Update(ctx, &c))
		}
	}
}

// Under load the volume of one of three nodes is lost: the node is refused, and let in again once the broker says that
// nothing is lost by giving up what it had.
func TestLostVolume(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	m, pass, cl := found(t, 3)
	confirmed, stop := publish(t, cl)
	defer stop()
	m.nodes.Kill(2)
	m.nodes.Lose(2)
	m.nodes.Launch(2)
	m.until(pass, "the node is let in", func(q *v1alpha1.QuorateCluster) error {
		if err := m.nodes.Broker(2).Ready(); err != nil {
			return err
		}
		return ready(q)
	})
	stop()
	consume(t.Context(), t, cl, confirmed.Load())
}

// Under load a changed setting goes through three nodes, one after the other: while one is not ready, no other is taken.
// What was confirmed is there, and settings that no pod has any longer are gone.
func TestRoll(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	m, pass, cl := found(t, 3)
	ctx := t.Context()
	confirmed, stop := publish(t, cl)
	defer stop()
	m.debug()
	taken := 0
	m.until(func(ctx context.Context) {
		before := 0
		for i := range 3 {
			if m.nodes.Broker(i).Ready() == nil {
				before++
			}
		}
		pass(ctx)
		var pods corev1.PodList
		m.must(m.kube.List(ctx, &pods, kube.InNamespace("default")))
		if gone := 3 - len(pods.Items); gone > 0 {
			if taken++; gone > 1 || before < 3 {
				t.Fatalf("%d pods are gone, and %d nodes were ready before", gone, before)
			}
		}
	}, "all nodes have the setting", func(q *v1alpha1.QuorateCluster) error {
		for _, n := range q.Status.Nodes {
			if n.Outdated {
				return fmt.Errorf("status %+v", q.Status.Nodes)
			}
		}
		if q.Status.ObservedGeneration != q.Generation || taken < 3 {
			return errors.New("not all were restarted")
		}
		return ready(q)
	})
	if taken != 3 {
		t.Errorf("%d pods were taken", taken)
	}
	stop()
	consume(ctx, t, cl, confirmed.Load())
	pass(ctx)
	var files corev1.ConfigMapList
	m.must(m.kube.List(ctx, &files, kube.InNamespace("default"), kube.MatchingLabels{instanceLabel: "node"}))
	if len(files.Items) != 1 {
		t.Errorf("there are %d ConfigMaps", len(files.Items))
	}
}

// A node that does not answer, and whose pod Kubernetes does not take for broken, gets a new setting before all others: that it is
// silent keeps nobody from restarting it.
func TestRollSilentNode(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	m, pass, _ := found(t, 3)
	m.nodes.Kill(2)
	m.debug()
	m.until(pass, "all nodes have the setting", func(q *v1alpha1.QuorateCluster) error {
		for _, n := range q.Status.Nodes {
			if n.Outdated {
				return fmt.Errorf("status %+v", q.Status.Nodes)
			}
		}
		if q.Status.ObservedGeneration != q.Generation || m.starts != 6 {
			return fmt.Errorf("%d starts of pods", m.starts)
		}
		return ready(q)
	})
}

// nodesOf returns the nodes that the cluster counts on.
func nodesOf(ctx context.Context, t *testing.T, cl *client.Client) map[string]client.ClusterNode {
	t.Helper()
	st, err := cl.ClusterStatus(ctx)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]client.ClusterNode{}
	for _, n := range st.Nodes {
		out[n.ID] = n
	}
	return out
}

// publish publishes numbered messages to queue q0, and counts those that are confirmed, until it is stopped.
func publish(t *testing.T, cl *client.Client) (confirmed *atomic.Int64, stop func()) {
	t.Helper()
	p, err := cl.Publisher(client.PublisherConfig{}) // it sends again what a node that ends has not answered
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	confirmed, done := &atomic.Int64{}, make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(2 * time.Millisecond) // a rate that a busy machine bears beside everything else
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			<-tick.C
			_, err := p.Publish(t.Context(), client.Message{RoutingKey: "q0", Body: fmt.Append(nil, i)})
			if err != nil {
				t.Errorf("message %d: %v", i, err)
				return
			}
			confirmed.Add(1)
		}
	}()
	return confirmed, func() {
		cancel()
		<-done
	}
}

// consume takes each of the confirmed messages, in their order.
func consume(ctx context.Context, t *testing.T, cl *client.Client, confirmed int64) {
	t.Helper()
	s, err := cl.Consume(ctx, client.ConsumeConfig{Queue: "q0"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range confirmed {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		d, err := s.Receive(ctx)
		cancel()
		if err != nil {
			t.Fatalf("message %d of %d is missing: %v", i, confirmed, err)
		}
		if string(d.Body) != fmt.Sprint(i) {
			t.Fatalf("message %q comes in place of %d", d.Body, i)
		}
		if err := d.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d messages were confirmed, all are there", confirmed)
}
