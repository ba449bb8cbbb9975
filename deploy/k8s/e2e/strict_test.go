//go:build linux

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/deploy/k8s/e2e/kube"
)

// strictly has the API server judge objects by its schemas, with every field known, and store none.
func strictly() []string { return []string{"apply", "--dry-run=server", "--validate=strict"} }

// A real API server takes all manifests as they are, pods under the level restricted, and the operator's samples. Left out is
// what needs definitions of others: those of the Prometheus operator and of cert-manager.
func TestStrict(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	p, err := kube.StartControlPlane(ctx, kube.ControlPlaneConfig{Bin: programs(t), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := p.Kubectl(ctx, args...)
		if err != nil {
			t.Error(err)
		}
		return out
	}
	takes := func(what, want string, args ...string) {
		t.Helper()
		out := kubectl(append(strictly(), args...)...)
		if !strings.Contains(out, want+" (server dry run)") || strings.Contains(out, "Warning") {
			t.Errorf("%s: %s", what, out)
		}
	}
	kubectl("create", "namespace", namespace)
	kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/warn=restricted")
	for _, dir := range []string{"base", "overlays/dev", "overlays/production", "overlays/tls"} {
		file := filepath.Join(t.TempDir(), "objects.yaml")
		var known []string
		for d := range strings.SplitSeq(kubectl("kustomize", filepath.Join(root, "deploy/k8s", dir)), "\n---\n") {
			if !strings.Contains(d, "apiVersion: monitoring.coreos.com/") {
				known = append(known, d)
			}
		}
		if err := os.WriteFile(file, []byte(strings.Join(known, "\n---\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		takes(dir, "statefulset.apps/quorate created", "--namespace", namespace, "--filename", file)
	}
	kubectl("apply", "--server-side", "--validate=strict", "--kustomize", filepath.Join(root, "deploy/k8s/operator"))
	kubectl("wait", "customresourcedefinitions", "--all", "--for=condition=Established", "--timeout=1m")
	for _, name := range []string{"platform", "team-orders"} { // of the sample of a shared cluster
		kubectl("create", "namespace", name)
	}
	takes("samples", "quorateuser.quorate.github.io/shop created", "--filename", filepath.Join(root, "deploy/k8s/operator/samples"))
	takes("webhook", "created", "--filename", filepath.Join(root, "deploy/k8s/operator/webhook/webhook.yaml"))
	if out, err := p.Kubectl(ctx, append(strictly(), "--filename", writeWrong(t))...); err == nil || !strings.Contains(out, `unknown field "spec.replica"`) {
		t.Errorf("a field that is not there is taken: %v, %s", err, out)
	}
}

// writeWrong writes an object with a field that its kind does not have.
func writeWrong(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "wrong.yaml")
	text := "apiVersion: quorate.github.io/v1alpha1\nkind: QuorateCluster\nmetadata: {name: wrong}\nspec: {replica: 3}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
