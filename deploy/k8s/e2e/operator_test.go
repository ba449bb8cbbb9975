//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/deploy/k8s/e2e/kube"
)

const (
	// operatorLimit is for the whole test on a machine that does much else; it takes some six minutes.
	operatorLimit     = 25 * time.Minute
	operatorNamespace = "quorate-operator"
	// patience is how long one thing is waited for.
	patience = 8 * time.Minute
	// keptQueues are described by objects, and keptMessages are in the first one when a backup is made.
	keptQueues   = 4
	keptMessages = 137
)

// wanted is a cluster, and a volume for its backups.
const wanted = `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: backups}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: quorate.github.io/v1alpha1
kind: QuorateCluster
metadata: {name: quorate}
spec:
  image: {version: dev}
  pod: {antiAffinity: preferred}
  storage: {size: 1Gi}
  resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 1Gi}}
  backup: {schedule: "0 3 1 1 *", persistentVolumeClaim: {claimName: backups}}
`

// spread is a rebalance that waits for an approval.
const spread = `apiVersion: quorate.github.io/v1alpha1
kind: QuorateRebalance
metadata: {name: spread}
spec: {cluster: {name: quorate}}
`

// queueObject describes a queue.
const queueObject = `---
apiVersion: quorate.github.io/v1alpha1
kind: QuorateQueue
metadata: {name: kept-%d}
spec: {cluster: {name: quorate}, arguments: {x-quorum-initial-group-size: 3}}
`

// The operator, installed by its manifests and with the rights that they give it, does to real nodes what
// docs/kubernetes-operator.md says, and clients lose nothing while it adds, removes, upgrades and repairs nodes.
func TestOperator(t *testing.T) { kube.Inside(t, operate) }

func operate(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), operatorLimit)
	defer cancel()
	o := &operated{deployment: prepare(ctx, t)}
	o.install()
	o.create(wanted)
	c := o.dial(o.serviceAddress() + ":7070")
	defer c.Close()
	o.describe(c)
	l := newLoad(ctx, t, c)
	o.change(l, "from 3 to 4 nodes", `{"spec":{"replicas":4}}`, func() { o.nodes(c, 4) })
	o.rebalance(c)
	o.change(l, "from 4 to 3 nodes", `{"spec":{"replicas":3}}`, func() { o.nodes(c, 3) })
	o.kubectl("wait", "qcluster/quorate", "--for=condition=VolumesLeft", "--timeout=1m")
	o.upgrade(l)
	o.edited(l, "next")
	o.grow(l)
	o.lose(l, "quorate-1")
	o.whole(c)
	l.finish()
	o.backUp(c)
	o.end()
}

// change gives the cluster another specification while clients work, and looks at the outcome.
func (o *operated) change(l *load, what, patch string, look func()) {
	o.t.Helper()
	begin := time.Now()
	pause := l.during(func() {
		o.patch(patch)
		o.settled()
	})
	o.done(fmt.Sprintf("%s, longest time without a confirm %v", what, pause.Round(time.Millisecond)), begin)
	look()
}

// nodes waits until the broker knows so many nodes, and no others.
func (o *operated) nodes(c *client.Client, want int) {
	o.t.Helper()
	o.poll(fmt.Sprintf("the broker has %d nodes", want), func() error {
		st, err := c.ClusterStatus(o.ctx)
		if err == nil && len(st.Nodes) != want {
			err = fmt.Errorf("it has %+v", st.Nodes)
		}
		return err
	})
}

// describe has queues made by objects.
func (o *operated) describe(c *client.Client) {
	o.t.Helper()
	begin := time.Now()
	var all strings.Builder
	for i := range keptQueues {
		fmt.Fprintf(&all, queueObject, i)
	}
	o.apply(all.String())
	o.kubectl("wait", "quoratequeues", "--all", "--for=condition=Ready", "--timeout=2m")
	o.done(fmt.Sprintf("%d queues are made from objects", keptQueues), begin)
	for i := range keptQueues {
		q, err := c.GetQueue(o.ctx, client.QueueRef{Name: fmt.Sprint("kept-", i)})
		if err != nil || len(q.Members) != replicas {
			o.t.Errorf("%+v, %v", q, err)
		}
	}
}

// rebalance spreads queues over the node that has come, once that is approved.
func (o *operated) rebalance(c *client.Client) {
	o.t.Helper()
	begin := time.Now()
	phase := func(is string) {
		o.t.Helper()
		o.kubectl("wait", "quoraterebalance/spread", "--for=jsonpath={.status.phase}="+is, "--timeout=3m")
	}
	o.apply(spread)
	phase("ProposalReady")
	proposal := strings.Fields(o.kubectl("get", "quoraterebalance", "spread", "-o", "jsonpath={.status.proposal.hash} {.status.proposal.moves}"))
	if len(proposal) != 2 || proposal[1] == "0" {
		o.t.Fatalf("the proposal is %q", proposal)
	}
	o.kubectl("annotate", "quoraterebalance", "spread", "quorate.github.io/approve="+proposal[0])
	phase("Done")
	o.done("rebalanced by "+proposal[1]+" moves", begin)
	st, err := c.ClusterStatus(o.ctx)
	if err != nil {
		o.t.Fatal(err)
	}
	if !slices.ContainsFunc(st.Nodes, func(n client.ClusterNode) bool { return n.ID == "quorate-3" && n.Replicas > 0 }) {
		o.t.Errorf("no queue has a member on quorate-3: %+v", st.Nodes)
	}
}

// upgrade goes to another image, one pod after the other. The operator's own pods end meanwhile: those that come go on.
func (o *operated) upgrade(l *load) {
	o.t.Helper()
	if err := o.cluster.Images.Put(imageOf("next"), nodeImage(programs(o.t))); err != nil {
		o.t.Fatal(err)
	}
	before, begin := o.pods(), time.Now()
	pause := l.during(func() {
		o.patch(`{"spec":{"image":{"version":"next"}}}`)
		o.anywhere("-n", operatorNamespace, "delete", "pods", "--all", "--wait=false")
		o.settled()
	})
	o.done(fmt.Sprintf("upgrade while the operator restarts, longest time without a confirm %v", pause.Round(time.Millisecond)), begin)
	o.replaced(before, replicas)
	o.haveImage("next")
}

// edited sets an image that nobody has in the StatefulSet, past the operator, which puts the former one back: no pod is restarted.
func (o *operated) edited(l *load, tag string) {
	o.t.Helper()
	before, begin := o.pods(), time.Now()
	pause := l.during(func() {
		o.kubectl("set", "image", "statefulset/quorate", "node="+imageOf("nobody-has"))
		o.poll("the image is put back", func() error {
			image := o.kubectl("get", "statefulset", "quorate", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
			if image != imageOf(tag) {
				return fmt.Errorf("it is %s", image)
			}
			return nil
		})
		o.settled()
	})
	o.done(fmt.Sprintf("an image set by hand is put back, longest time without a confirm %v", pause.Round(time.Millisecond)), begin)
	o.replaced(before, 0)
	o.haveImage(tag)
}

// haveImage makes sure that all nodes have an image.
func (o *operated) haveImage(tag string) {
	o.t.Helper()
	for _, p := range o.pods() {
		if image := p.Spec.Containers[0].Image; image != imageOf(tag) {
			o.t.Errorf("%s runs %s", p.Name, image)
		}
	}
}

// grow enlarges the volumes; no pod is restarted.
func (o *operated) grow(l *load) {
	o.t.Helper()
	before := o.pods()
	o.change(l, "larger volumes", `{"spec":{"storage":{"size":"2Gi"}}}`, func() { o.replaced(before, 0) })
	for i := range replicas {
		claim := fmt.Sprintf("pvc/data-quorate-%d", i)
		o.kubectl("wait", claim, "--for=jsonpath={.status.capacity.storage}=2Gi", "--timeout=1m")
	}
	if size := o.kubectl("get", "statefulset", "quorate", "-o", "jsonpath={.spec.volumeClaimTemplates[0].spec.resources.requests.storage}"); size != "2Gi" {
		o.t.Errorf("the StatefulSet makes volumes of %s", size)
	}
}

// lose takes a pod away with its volume; the operator lets the node in again.
func (o *operated) lose(l *load, pod string) {
	o.t.Helper()
	get := func(what, path string) string {
		out, _ := o.cluster.Kubectl(o.ctx, "-n", namespace, "get", what, "-o", "jsonpath="+path) // what is not there has no such field
		return out
	}
	begin, claim := time.Now(), "pvc/data-"+pod
	volume, life := get(claim, "{.metadata.uid}"), get("pod/"+pod, "{.metadata.uid}")
	pause := l.during(func() {
		o.kubectl("delete", claim, "--wait=false")
		o.kubectl("delete", "pod", pod)
		o.poll(pod+" is ready with another volume", func() error {
			now, again := get(claim, "{.metadata.uid}"), get("pod/"+pod, "{.metadata.uid}")
			ready := get("pod/"+pod, `{.status.conditions[?(@.type=="Ready")].status}`)
			if now == volume || again == life || ready != "True" {
				return fmt.Errorf("claim %s of before %s, pod %s of before %s, ready %q", now, volume, again, life, ready)
			}
			return nil
		})
	})
	o.done(fmt.Sprintf("a lost volume is replaced, longest time without a confirm %v", pause.Round(time.Millisecond)), begin)
	o.settled()
}

// whole waits until each queue has all its members.
func (o *operated) whole(c *client.Client) {
	o.t.Helper()
	o.poll("each queue has three members online", func() error {
		all, err := client.Collect(c.Queues(o.ctx, client.ListQueuesRequest{WithStats: true}))
		if err != nil {
			return err
		}
		for _, q := range all {
			if len(q.Online) != replicas || slices.Contains(q.Members, "quorate-3") {
				return fmt.Errorf("%+v", q)
			}
		}
		if len(all) != keptQueues+1 {
			return fmt.Errorf("%d queues", len(all))
		}
		return nil
	})
}

// backUp runs the job of the schedule at once.
func (o *operated) backUp(c *client.Client) {
	o.t.Helper()
	p, err := c.Publisher(client.PublisherConfig{})
	if err != nil {
		o.t.Fatal(err)
	}
	for range keptMessages {
		if _, err := p.Publish(o.ctx, client.Message{RoutingKey: "kept-0", Body: []byte("kept")}); err != nil {
			o.t.Fatal(err)
		}
	}
	begin := time.Now()
	o.kubectl("create", "job", "now", "--from=cronjob/quorate-backup")
	o.kubectl("wait", "job/now", "--for=condition=Complete", "--timeout=3m")
	if said := o.kubectl("logs", "job/now", "--all-containers"); !strings.Contains(said, fmt.Sprint(keptMessages)) {
		o.t.Errorf("the backup does not have %d messages: %s", keptMessages, said)
	}
	o.kubectl("wait", "qcluster/quorate", "--for=condition=BackupFailing=False", "--timeout=2m")
	o.done("a backup, and the condition that says so", begin)
	if text := o.kubectl("get", "qcluster", "quorate", "-o", "jsonpath={.status.lastBackup}"); text == "" {
		o.t.Error("the status has no last backup")
	}
}

// end deletes the cluster, and its volumes stay.
func (o *operated) end() {
	o.t.Helper()
	begin := time.Now()
	o.kubectl("delete", "qcluster", "quorate", "--timeout=3m")
	o.poll("the pods are gone", func() error {
		if left := o.pods(); len(left) > 0 {
			return fmt.Errorf("%d are left, %s first", len(left), left[0].Name)
		}
		return nil
	})
	o.done("deleted", begin)
	var errs []error
	for i := range replicas + 1 {
		_, err := o.cluster.Kubectl(o.ctx, "-n", namespace, "get", fmt.Sprintf("pvc/data-quorate-%d", i))
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		o.t.Errorf("volumes have gone with the cluster: %v", err)
	}
}
