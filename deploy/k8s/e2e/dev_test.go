//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/deploy/k8s/e2e/cri"
	"github.com/quorate/quorate/deploy/k8s/e2e/kube"
	"github.com/quorate/quorate/internal/wait"
)

const (
	namespace = "quorate"
	selector  = "app.kubernetes.io/name=quorate"
	replicas  = 3
	// limit is for the whole test on a machine that does much else; it takes some three minutes.
	limit = 15 * time.Minute
)

// The overlay for trying things out does on a cluster what docs/kubernetes.md says, and clients lose nothing
// while pods are restarted, evicted and deleted.
func TestDevOverlay(t *testing.T) { kube.Inside(t, devOverlay) }

func devOverlay(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	d := deploy(ctx, t)
	d.eachServes()
	t.Logf("FIGURE idle resident memory of each node, aim %d MiB: %s", idleAim, d.memoryAtRest(idleAim))
	d.asDocumented()
	c := d.dial(d.serviceAddress() + ":7070")
	defer c.Close()
	l := newLoad(ctx, t, c)
	for _, r := range []struct {
		name       string
		whole, gap time.Duration // aims for the whole, and for the longest time without a confirm; 0: none
		do         func()
	}{
		{"rollout restart", time.Minute, time.Second, d.restart},
		{"drain of a machine", 0, time.Second, d.drain},
		{"deletion of a pod", 0, time.Second, func() { d.delete("quorate-0") }},
		{"deletion of all pods", 0, 10 * time.Second, func() { d.delete("-l", selector) }},
	} {
		d.available()
		begin := time.Now()
		pause := l.during(r.do)
		t.Logf("FIGURE %s: %v%s, longest time without a confirm %v%s", r.name, time.Since(begin).Round(10*time.Millisecond), aim(r.whole),
			pause.Round(time.Millisecond), aim(r.gap))
	}
	l.finish()
}

// idleAim is what a node at rest is to take of memory, in MiB.
const idleAim = 60

// aim is what a figure is compared with by who reads it: a machine that does much else fails no test by it.
func aim(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf(" (aim %v)", d)
}

// deployment is a cluster of nodes in the namespace of a test's Kubernetes.
type deployment struct {
	t       *testing.T
	ctx     context.Context
	cluster *kube.Cluster
	client  *kubernetes.Clientset
	// user and password are an administrator's of the nodes.
	user, password string
	tls            *client.TLS // of clients; nil: none
}

// root is the repository's.
const root = "../../.."

// programs is the directory with what `make build operator kube` builds.
func programs(t *testing.T) string {
	t.Helper()
	bin, err := filepath.Abs(filepath.Join(root, "bin"))
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// nodeImage is the broker's image, as `make image` packs it.
func nodeImage(bin string) cri.Image {
	return cri.Image{
		Files:      map[string]string{"/quorate": filepath.Join(bin, "quorate"), "/quoratectl": filepath.Join(bin, "quoratectl")},
		Entrypoint: []string{"/quorate"}, Cmd: []string{"node", "--config", "/etc/quorate/node.yaml"}, User: 65532,
	}
}

// start starts a cluster of three nodes that has the broker's image.
func start(ctx context.Context, t *testing.T) *kube.Cluster {
	t.Helper()
	bin := programs(t)
	begin := time.Now()
	c, err := kube.Start(ctx, kube.Config{Bin: bin, Dir: t.TempDir(), Images: map[string]cri.Image{"quorate/quorate:dev": nodeImage(bin)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	t.Logf("FIGURE a cluster of three nodes is ready: %v", time.Since(begin).Round(10*time.Millisecond))
	return c
}

// prepare starts a cluster with the namespace of the nodes.
func prepare(ctx context.Context, t *testing.T) *deployment {
	t.Helper()
	d := &deployment{t: t, ctx: ctx, cluster: start(ctx, t), user: "dev", password: "dev"}
	t.Cleanup(d.explain)
	var err error
	if d.client, err = d.cluster.Client(); err != nil {
		t.Fatal(err)
	}
	d.kubectl("create", "namespace", namespace)
	return d
}

// deploy starts a cluster and applies the overlay, unchanged.
func deploy(ctx context.Context, t *testing.T) *deployment {
	t.Helper()
	d := prepare(ctx, t)
	begin := time.Now()
	d.kubectl("apply", "-k", filepath.Join(root, "deploy/k8s/overlays/dev"))
	d.rolledOut()
	t.Logf("FIGURE applied and rolled out: %v", time.Since(begin).Round(10*time.Millisecond))
	return d
}

// explain shows the cluster's state if the test has failed.
func (d *deployment) explain() {
	if !d.t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, args := range [][]string{
		{"get", "pods,pvc,pv,nodes,endpointslices", "-o", "wide"},
		{"get", "events", "--sort-by=.lastTimestamp"},
		{"logs", "-l", selector, "--tail=20", "--prefix"},
	} {
		out, err := d.cluster.Kubectl(ctx, append([]string{"-n", namespace}, args...)...)
		d.t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// kubectl runs kubectl in the deployment's namespace.
func (d *deployment) kubectl(args ...string) string {
	d.t.Helper()
	out, err := d.cluster.Kubectl(d.ctx, append([]string{"-n", namespace}, args...)...)
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

func (d *deployment) rolledOut() {
	d.t.Helper()
	d.kubectl("rollout", "status", "statefulset/quorate", "--timeout=5m")
}

// available waits until all pods have been ready for minReadySeconds. A rollout that begins earlier replaces them all
// at once, since Kubernetes 1.37: it takes pods that are not available for broken ones.
func (d *deployment) available() {
	d.t.Helper()
	d.kubectl("wait", "--for=jsonpath={.status.availableReplicas}=3", "statefulset/quorate", "--timeout=5m")
}

// pods returns the nodes' pods.
func (d *deployment) pods() []core.Pod {
	d.t.Helper()
	all, err := d.client.CoreV1().Pods(namespace).List(d.ctx, meta.ListOptions{LabelSelector: selector})
	if err != nil {
		d.t.Fatal(err)
	}
	return all.Items
}

// replaced waits until all pods are ready and so many are not among those of before.
func (d *deployment) replaced(before []core.Pod, count int) {
	d.t.Helper()
	old := map[types.UID]bool{}
	for _, p := range before {
		old[p.UID] = true
	}
	for {
		ready, fresh := 0, 0
		for _, p := range d.pods() {
			if p.DeletionTimestamp != nil {
				continue
			}
			for _, c := range p.Status.Conditions {
				if c.Type == core.PodReady && c.Status == core.ConditionTrue {
					ready++
				}
			}
			if !old[p.UID] {
				fresh++
			}
		}
		if ready == replicas && fresh == count {
			return
		}
		if err := wait.For(d.ctx, 50*time.Millisecond); err != nil {
			d.t.Fatalf("%d of %d pods are ready, %d of %d are new: %v", ready, replicas, fresh, count, err)
		}
	}
}

func (d *deployment) restart() {
	before := d.pods()
	d.kubectl("rollout", "restart", "statefulset/quorate")
	d.rolledOut()
	d.replaced(before, replicas)
}

// drain takes a machine out of use: its pods go elsewhere, one at a time.
func (d *deployment) drain() {
	before := d.pods()
	machine := before[1].Spec.NodeName
	moved := 0
	for _, p := range before {
		if p.Spec.NodeName == machine {
			moved++
		}
	}
	d.kubectl("drain", machine, "--ignore-daemonsets", "--delete-emptydir-data")
	d.replaced(before, moved)
	for _, p := range d.pods() {
		if p.Spec.NodeName == machine {
			d.t.Errorf("%s is on %s, which was drained", p.Name, machine)
		}
	}
	d.kubectl("uncordon", machine)
}

// delete deletes pods by name or selector, and waits for those that follow.
func (d *deployment) delete(which ...string) {
	before := d.pods()
	out := d.kubectl(append([]string{"delete", "pod"}, which...)...)
	d.replaced(before, strings.Count(out, "deleted"))
}

func (d *deployment) serviceAddress() string {
	d.t.Helper()
	return d.kubectl("get", "service", "quorate", "-o", "jsonpath={.spec.clusterIP}")
}

func (d *deployment) dial(addresses ...string) *client.Client {
	d.t.Helper()
	c, err := client.Dial(d.ctx, client.Config{Addresses: addresses, FixedAddresses: true, Username: d.user, Password: d.password, TLS: d.tls})
	if err != nil {
		d.t.Fatal(err)
	}
	return c
}

// eachServes publishes to each pod, by its address, and gets the message back.
func (d *deployment) eachServes() {
	d.t.Helper()
	for i := range replicas {
		ip := d.kubectl("get", "pod", fmt.Sprintf("quorate-%d", i), "-o", "jsonpath={.status.podIP}")
		c := d.dial(ip + ":7070")
		defer c.Close()
		queue, body := fmt.Sprintf("at-%d", i), "to "+ip
		if _, err := c.DeclareQueue(d.ctx, client.Queue{Name: queue}); err != nil {
			d.t.Fatal(err)
		}
		p, err := c.Publisher(client.PublisherConfig{})
		if err != nil {
			d.t.Fatal(err)
		}
		if _, err := p.Publish(d.ctx, client.Message{RoutingKey: queue, Body: []byte(body)}); err != nil {
			d.t.Fatalf("publish at %s: %v", ip, err)
		}
		consumer, err := c.Consume(d.ctx, client.ConsumeConfig{Queue: queue})
		if err != nil {
			d.t.Fatal(err)
		}
		m, err := consumer.Receive(d.ctx)
		if err != nil || string(m.Body) != body {
			d.t.Fatalf("consumed at %s: %v, %v, want %q", ip, m, err, body)
		}
		if err := errors.Join(m.Ack(), consumer.Flush(d.ctx)); err != nil {
			d.t.Fatal(err)
		}
		consumer.Close()
	}
}

// asDocumented runs commands of docs/kubernetes.md that ask the kubelet for streams.
func (d *deployment) asDocumented() {
	d.t.Helper()
	if out := d.kubectl("logs", "quorate-0"); !strings.Contains(out, "quorate-0") {
		d.t.Errorf("the log of quorate-0 does not name it:\n%s", out)
	}
	if out := d.kubectl("exec", "quorate-0", "--", "/quorate", "--version"); !strings.Contains(out, "quorate") {
		d.t.Error("/quorate --version in a pod prints " + out)
	}
	if out, err := d.cluster.Kubectl(d.ctx, "-n", namespace, "exec", "quorate-0", "--", "/quorate", "nonsense"); err == nil {
		d.t.Errorf("/quorate nonsense in a pod succeeds: %s", out)
	}
}
