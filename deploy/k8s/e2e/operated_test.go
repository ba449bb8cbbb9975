//go:build linux

package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quorate/quorate/deploy/k8s/e2e/cri"
	"github.com/quorate/quorate/internal/wait"
)

// operated is a deployment that the operator looks after.
type operated struct{ *deployment }

// anywhere runs kubectl without a namespace.
func (o *operated) anywhere(args ...string) string {
	o.t.Helper()
	out, err := o.cluster.Kubectl(o.ctx, args...)
	if err != nil {
		o.t.Fatal(err)
	}
	return out
}

// apply applies manifests in the namespace of the nodes.
func (d *deployment) apply(manifests string) {
	d.t.Helper()
	file := filepath.Join(d.t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(manifests), 0o600); err != nil {
		d.t.Fatal(err)
	}
	d.kubectl("apply", "-f", file)
}

// poll looks at a condition until it holds.
func (d *deployment) poll(what string, holds func() error) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.ctx, patience)
	defer cancel()
	for {
		err := holds()
		if err == nil {
			return
		}
		if ended := wait.For(ctx, 500*time.Millisecond); ended != nil {
			d.t.Fatalf("%s: %v: %v", what, ended, err)
		}
	}
}

// done reports how long a step took.
func (o *operated) done(what string, begin time.Time) {
	o.t.Helper()
	o.t.Logf("FIGURE operator: %s: %v", what, time.Since(begin).Round(10*time.Millisecond))
}

// install installs the operator as its page says.
func (o *operated) install() {
	o.t.Helper()
	o.t.Cleanup(o.show)
	image := cri.Image{Files: map[string]string{"/quorate-operator": filepath.Join(programs(o.t), "quorate-operator")}, Entrypoint: []string{"/quorate-operator"}, User: 65532}
	if err := o.cluster.Images.Put("quorate/quorate-operator:dev", image); err != nil {
		o.t.Fatal(err)
	}
	begin := time.Now()
	o.anywhere("apply", "--server-side", "-k", filepath.Join(root, "deploy/k8s/operator"))
	o.anywhere("-n", operatorNamespace, "rollout", "status", "deployment/quorate-operator", "--timeout=3m")
	o.done("installed", begin)
}

// show logs what the operator says if the test has failed.
func (o *operated) show() {
	if !o.t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, args := range [][]string{
		{"-n", operatorNamespace, "get", "pods", "-o", "wide"},
		{"-n", operatorNamespace, "logs", "-l", "app.kubernetes.io/name=quorate-operator", "--tail=60", "--prefix"},
		{"-n", namespace, "get", "qcluster,quoratequeues,quoraterebalances,statefulsets,jobs", "-o", "yaml"},
	} {
		out, err := o.cluster.Kubectl(ctx, args...)
		o.t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// create makes a cluster, and takes the operator's login for this test's.
func (o *operated) create(manifests string) {
	o.t.Helper()
	begin := time.Now()
	o.apply(manifests)
	o.settled()
	o.done("three nodes serve", begin)
	secret := o.kubectl("get", "qcluster", "quorate", "-o", "jsonpath={.status.administrator}")
	for key, to := range map[string]*string{"username": &o.user, "password": &o.password} {
		text, err := base64.StdEncoding.DecodeString(o.kubectl("get", "secret", secret, "-o", "jsonpath={.data."+key+"}"))
		if err != nil {
			o.t.Fatal(err)
		}
		*to = string(text)
	}
}

// settled waits until the operator has nothing to do and nothing in its way for the present specification, and as many nodes
// serve as it asks for.
func (o *operated) settled() {
	o.t.Helper()
	o.says("{.status.step}", " Progressing=False@", " Degraded=False@", " Ready=True@")
}

// says waits until the status has some texts. Of conditions, such as " Ready=True@", those of the present specification count; of
// what else it says, what a path leads to. All has to be so in one status: what is blocked for a moment, such as a restart while
// queues catch up, counts as nothing to do.
func (o *operated) says(path string, all ...string) {
	o.t.Helper()
	format := "jsonpath={.metadata.generation}{range .status.conditions[*]} {.type}={.status}@{.observedGeneration}{end} ; " + path
	o.poll("the status is as wanted", func() error {
		status, err := o.cluster.Kubectl(o.ctx, "-n", namespace, "get", "qcluster", "quorate", "-o", format)
		if err != nil {
			return err
		}
		generation, rest, _ := strings.Cut(status, " ")
		for _, want := range all {
			if strings.HasSuffix(want, "@") {
				want += generation + " "
			}
			if !strings.Contains(" "+rest, want) {
				return fmt.Errorf("not %q of generation %s: %s", want, generation, rest)
			}
		}
		return nil
	})
}

// patch changes the cluster's specification.
func (o *operated) patch(patch string) {
	o.t.Helper()
	o.kubectl("patch", "qcluster", "quorate", "--type=merge", "--patch", patch)
}
