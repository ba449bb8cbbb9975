package k8s

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The overlay that docs/kubernetes.md shows builds and does what it says there.
func TestDocumentedOverlay(t *testing.T) {
	text, err := os.ReadFile("../../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "```yaml\n")
	block, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatal("docs/kubernetes.md shows no overlay")
	}
	dir := t.TempDir()
	base, err := filepath.Abs("../base")
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(dir, base)
	if err != nil {
		t.Fatal(err)
	}
	overlay := strings.ReplaceAll(strings.ReplaceAll(block, "\n   ", "\n"), "../../base", relative)
	overlay = strings.TrimPrefix(overlay, "   ")
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(overlay), 0o600); err != nil {
		t.Fatal(err)
	}
	o := build(t, dir)
	if got, want := node(t, o).Image, "registry.example/quorate/quorate:0.1.0"; got != want {
		t.Errorf("image = %s, want %s", got, want)
	}
	claim := o.set.Spec.VolumeClaimTemplates[0].Spec
	if claim.StorageClassName == nil || *claim.StorageClassName != "fast-local" || claim.Resources.Requests.Storage().String() != "100Gi" {
		t.Errorf("claim = %+v, want 100Gi of fast-local", claim)
	}
}
