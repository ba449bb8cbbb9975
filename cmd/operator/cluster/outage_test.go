package cluster

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

// killAll ends some nodes at once, as a power cut does, and starts them with what they had stored.
func (m *machine) killAll(nodes ...int) {
	for _, i := range nodes {
		m.nodes.Kill(i)
	}
	for _, i := range nodes {
		m.nodes.Launch(i)
	}
}

// membersOn returns the queues with a member on a node, if the cluster can say so now.
func (m *machine) membersOn(cl *client.Client, node string) (out []string) {
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Second)
	defer cancel()
	for q, err := range cl.Queues(ctx, client.ListQueuesRequest{}) {
		if err != nil {
			return nil
		}
		if slices.Contains(q.Members, node) {
			out = append(out, q.Name)
		}
	}
	return out
}

// Under load all nodes are killed, and the operator with them, while one of four leaves, and the three once more when the
// cluster has forgotten it: the removal starts over or is complete, its pod ends only then, and what was confirmed is
// there.
func TestAllKilledDuringScaleDown(t *testing.T) {
	if testing.Short() {
		t.Skip("starts four nodes")
	}
	m, pass, cl := found(t, 4)
	ctx := t.Context()
	confirmed, stop := publish(t, cl)
	defer stop()
	m.scale(3)
	m.until(pass, "node 3 leaves", func(q *v1alpha1.QuorateCluster) error {
		draining := slices.ContainsFunc(q.Status.Nodes, func(n v1alpha1.NodeStatus) bool { return n.Name == "node-3" && n.State == draining })
		if !draining && q.Status.Operation == nil && q.Status.Replicas == 4 {
			return fmt.Errorf("status %+v", q.Status)
		}
		return nil
	})
	m.killAll(0, 1, 2, 3)
	once := true
	m.until(m.operator(), "three nodes are left", func(q *v1alpha1.QuorateCluster) error {
		if m.down[3] {
			if left := m.membersOn(cl, "node-3"); len(left) > 0 {
				t.Fatalf("the pod of node 3 ended while queues %q had a member there", left)
			}
		}
		var claim corev1.PersistentVolumeClaim
		m.must(m.kube.Get(ctx, types.NamespacedName{Namespace: "default", Name: "data-node-3"}, &claim))
		if claim.Annotations[givenUp] != "" && once {
			once = false
			m.killAll(0, 1, 2)
		}
		if q.Status.Replicas != 3 || !m.down[3] {
			return fmt.Errorf("status %+v, step %q", q.Status.Nodes, q.Status.Step)
		}
		return ready(q)
	})
	if once {
		t.Error("the nodes were not killed a second time")
	}
	m.movedOff(cl, "node-3")
	stop()
	consume(ctx, t, cl, confirmed.Load())
}

// Under load the disk of one of three nodes is wiped, and both others are restarted at once, before it is let in and while it
// is rebuilt: it comes in all the same, and what was confirmed is there.
func TestWipedDiskAndRestarts(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	m, pass, cl := found(t, 3)
	confirmed, stop := publish(t, cl)
	defer stop()
	m.nodes.Kill(2)
	m.nodes.Lose(2)
	m.nodes.Launch(2)
	m.killAll(0, 1)
	m.until(pass, "the node is let in", func(q *v1alpha1.QuorateCluster) error {
		i := slices.IndexFunc(q.Status.Nodes, func(n v1alpha1.NodeStatus) bool { return n.Name == "node-2" })
		if i < 0 || q.Status.Nodes[i].State == refused || q.Status.Nodes[i].State == "" {
			return fmt.Errorf("status %+v, step %q", q.Status.Nodes, q.Status.Step)
		}
		return nil
	})
	m.killAll(0, 1)
	m.until(m.operator(), "all are ready", func(q *v1alpha1.QuorateCluster) error {
		if err := m.nodes.Broker(2).Ready(); err != nil {
			return err
		}
		return ready(q)
	})
	stop()
	consume(t.Context(), t, cl, confirmed.Load())
}
