//go:build linux

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/deploy/k8s/e2e/kube"
)

const (
	// chaosLimit is for the whole test; it takes some four minutes.
	chaosLimit = 20 * time.Minute
	// chaosTime bounds the time in which each fault comes once.
	chaosTime = "10m"
)

// chaosFaults are those of pods and machines, and what operators do. Cuts need a network that enforces policies, and pauses
// an image with a shell.
func chaosFaults() []string {
	return []string{"kill", "restart", "rollout", "evict", "wiped", "transfer", "rebuild", "close"}
}

// Real kubectl and a real StatefulSet do what the chaos target for Kubernetes asks them for: each fault comes once, hits, and
// heals, and what clients saw meanwhile is valid.
func TestChaos(t *testing.T) { kube.Inside(t, chaos) }

func chaos(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), chaosLimit)
	defer cancel()
	d := deploy(ctx, t)
	d.available()
	bin := programs(t)
	run := exec.CommandContext(ctx, filepath.Join(bin, "quoratectl"), "chaos", "run", "--target", "k8s", "--namespace", namespace,
		"--user", d.user, "--confirm", "quorate", "--faults", strings.Join(chaosFaults(), ","), "--workloads", "publish", "--rate", "100",
		"--each", "--strict", "--max-pause", "-1", "--time", chaosTime, "--out", filepath.Join(t.TempDir(), "run"))
	run.Env = append(os.Environ(), "QUORATE_PASSWORD="+d.password, "KUBECONFIG="+d.cluster.Kubeconfig, "PATH="+bin+":"+os.Getenv("PATH"))
	begin := time.Now()
	out, err := run.CombinedOutput()
	t.Logf("FIGURE chaos on Kubernetes: %v\n%s", time.Since(begin).Round(time.Second), out)
	if err != nil || !strings.Contains(string(out), "history is valid") {
		t.Errorf("quoratectl chaos run: %v", err)
	}
	for _, f := range chaosFaults() {
		if !strings.Contains(string(out), " "+f+" of ") {
			t.Errorf("nothing is said of the fault %s", f)
		}
	}
	d.rolledOut()
	if left := d.kubectl("get", "networkpolicies,pods", "-l", "app.kubernetes.io/managed-by=quorate-chaos", "-o", "name"); left != "" {
		t.Errorf("the run has left %s", left)
	}
	if closed := d.kubectl("get", "nodes", "-o", "jsonpath={.items[*].spec.unschedulable}"); closed != "" {
		t.Error("the run has left a machine cordoned")
	}
}
