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

// smokeLimit is for all steps of the script, on a machine that does much else.
const smokeLimit = 30 * time.Minute

// The smoke test for any cluster passes on this one, with every step.
func TestSmoke(t *testing.T) { kube.Inside(t, smoke) }

func smoke(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), smokeLimit)
	defer cancel()
	c := start(ctx, t)
	bin, err := filepath.Abs(filepath.Join(root, "bin"))
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	script := exec.CommandContext(ctx, "bash", filepath.Join(root, "deploy/k8s/smoke.sh"), "--yes", "--logs", t.TempDir())
	script.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := script.CombinedOutput()
	t.Logf("FIGURE smoke.sh: %v\n%s", time.Since(begin).Round(time.Second), out)
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), "smoke: ok") {
		t.Errorf("smoke.sh: %v", err)
	}
}
