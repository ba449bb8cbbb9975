package k8s

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/strvals"
	corev1 "k8s.io/api/core/v1"
)

// The overlay that docs/kubernetes.md shows builds and does what it says there.
func TestDocumentedOverlay(t *testing.T) {
	text, err := os.ReadFile("../../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "```yaml\n   apiVersion")
	rest = "   apiVersion" + rest
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
	if got, want := node(t, o).Image, "registry.example/quorate/quorate:0.9.0"; got != want {
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

// Commands for Helm that docs/kubernetes.md shows name files and values that there are, and its values
// are what the chart takes.
func TestDocumentedHelm(t *testing.T) {
	text, err := os.ReadFile("../../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	files := regexp.MustCompile(`-f (deploy/helm/\S+\.yaml)`).FindAllStringSubmatch(string(text), -1)
	sets := regexp.MustCompile(`--set ([a-zA-Z.]+)=([a-z0-9]+)`).FindAllStringSubmatch(string(text), -1)
	_, rest, found := strings.Cut(string(text), "```yaml\nimage:")
	block, _, ended := strings.Cut("image:"+rest, "```")
	if len(files) < 3 || len(sets) < 2 || !found || !ended {
		t.Fatalf("files %v, values %v, a block of values %v", files, sets, found && ended)
	}
	for _, f := range files {
		if _, err := renderChart("quorate", values(t, "../../../"+f[1])); err != nil {
			t.Errorf("%s: %v", f[1], err)
		}
	}
	for _, set := range sets {
		v, err := strvals.Parse(set[1] + "=" + set[2])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := renderChart("quorate", v); err != nil {
			t.Errorf("%s: %v", set[0], err)
		}
	}
	own := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(own, []byte(block), 0o600); err != nil {
		t.Fatal(err)
	}
	o := buildChart(t, "quorate", values(t, chartDir+"/values-production.yaml", own))
	if got := node(t, o).Image; got != "registry.example/quorate/quorate:0.9.0" {
		t.Errorf("image %s", got)
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
