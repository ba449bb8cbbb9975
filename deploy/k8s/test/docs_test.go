package k8s

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
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

// The patch that docs/kubernetes.md shows for metrics over TLS fits the overlay with certificates:
// probes speak TLS too.
func TestDocumentedHTTPS(t *testing.T) {
	text, err := os.ReadFile("../../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	var patch string
	for block := range strings.SplitSeq(string(text), "```") {
		if strings.HasPrefix(block, "yaml\npatches:") {
			patch = strings.TrimPrefix(block, "yaml\n")
		}
	}
	if patch == "" {
		t.Fatal("docs/kubernetes.md shows no patch")
	}
	dir := t.TempDir()
	overlay, err := filepath.Abs("../overlays/tls")
	if err != nil {
		t.Fatal(err)
	}
	if overlay, err = filepath.Rel(dir, overlay); err != nil {
		t.Fatal(err)
	}
	all := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [" + overlay + "]\n" + patch
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(all), 0o600); err != nil {
		t.Fatal(err)
	}
	c := node(t, build(t, dir))
	if env(c, "QUORATE_HTTP__TLS").Value != "true" {
		t.Errorf("environment %v", c.Env)
	}
	for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if p.HTTPGet.Scheme != corev1.URISchemeHTTPS {
			t.Errorf("%s is asked for by %q", p.HTTPGet.Path, p.HTTPGet.Scheme)
		}
	}
}

// Passwords by the recipe of docs/kubernetes.md stand in a URI as they are.
func TestDocumentedPassword(t *testing.T) {
	text, err := os.ReadFile("../../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), `--from-literal=password="$(`)
	recipe, _, ended := strings.Cut(rest, `)"`)
	if !found || !ended {
		t.Fatal("docs/kubernetes.md shows no recipe")
	}
	for range 20 {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", recipe).Output()
		if err != nil {
			t.Fatal(err)
		}
		password := strings.TrimSpace(string(out))
		if len(password) < 24 || url.UserPassword("u", password).String() != "u:"+password || url.QueryEscape(password) != password {
			t.Errorf("%q is short, or has to be escaped in a URI", password)
		}
	}
}
