package k8s

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// fakeKubectl is kubectl for what smoke.sh does before there is a cluster to ask: it notes each call, answers about
// the namespace as the file `namespace` says, keeps what is applied, and refuses the rest.
const fakeKubectl = `#!/bin/sh
echo "$*" >>"$SMOKE_FAKE/calls"
case "$*" in
  "config current-context") echo staging ;;
  *"get namespace quorate-smoke"*) cat "$SMOKE_FAKE/namespace"; grep -q error "$SMOKE_FAKE/namespace" && { cat "$SMOKE_FAKE/namespace" >&2; exit 1; }; exit 0 ;;
  *"create namespace"* | *"label "* | *"create secret"*) ;;
  *"apply -k "*) for dir; do :; done; cp -R "${dir%/overlays/smoke}" "$SMOKE_FAKE/applied" ;;
  *) echo "no such call: $*" >&2; exit 1 ;;
esac
`

// smoke is a run of smoke.sh with such a kubectl.
type smoke struct {
	dir   string // of the fake
	code  int
	last  string // line of its standard output
	errs  string
	calls string
}

// runSmoke runs the script; namespace is what kubectl says of the label, or an error.
func runSmoke(t *testing.T, namespace string, args ...string) smoke {
	t.Helper()
	s := smoke{dir: t.TempDir()}
	for name, content := range map[string]string{"kubectl": fakeKubectl, "namespace": namespace} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", append([]string{"../smoke.sh"}, args...)...)
	cmd.Env = append(os.Environ(), "SMOKE_FAKE="+s.dir, "TMPDIR="+s.dir, "PATH="+s.dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	s.code, s.last, s.errs = cmd.ProcessState.ExitCode(), lines[len(lines)-1], errs.String()
	calls, err := os.ReadFile(filepath.Join(s.dir, "calls"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	s.calls = string(calls)
	return s
}

const absent = `error: namespaces "quorate-smoke" not found`

// A wrong command line ends with 2 and a reason, before kubectl is asked anything.
func TestSmokeOptions(t *testing.T) {
	for args, want := range map[string]string{
		"--steps restart,burn": "no step burn", "--overlay moon": "no overlay moon", "--overlay ../base": "no overlay ../base",
		"--timeout soon": "--timeout is soon", "--image": "--image needs a value", "--force": "no option --force",
	} {
		s := runSmoke(t, absent, strings.Fields(args)...)
		if s.code != 2 || !strings.Contains(s.errs, want) || s.calls != "" {
			t.Errorf("%s: code %d, %s, kubectl was asked for %q", args, s.code, s.errs, s.calls)
		}
	}
	if s := runSmoke(t, absent, "--help"); s.code != 0 || s.calls != "" {
		t.Errorf("--help: code %d, kubectl was asked for %q", s.code, s.calls)
	}
}

// Nothing is done to a cluster without leave, nor to a namespace that is not the script's own.
func TestSmokeRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		namespace string
		args      []string
		code      int
		want      string
	}{
		"no leave":       {absent, nil, 2, "give --yes if the context staging is meant"},
		"it exists":      {"yes", []string{"--yes"}, 1, "give --reuse"},
		"somebody's":     {"", []string{"--yes", "--reuse"}, 1, "is not of this script"},
		"does not tell":  {"error: the server is away", []string{"--yes"}, 1, "the server is away"},
		"no permissions": {`error: namespaces "quorate-smoke" is forbidden`, []string{"--yes"}, 1, "forbidden"},
	} {
		s := runSmoke(t, test.namespace, test.args...)
		if s.code != test.code || !strings.Contains(s.last+s.errs, test.want) {
			t.Errorf("%s: code %d, %s %s", name, s.code, s.last, s.errs)
		}
		if test.code == 1 && !strings.HasPrefix(s.last, "smoke: FAILED: install: ") {
			t.Errorf("%s: the last line is %q", name, s.last)
		}
		for _, change := range []string{"create ", "apply ", "delete ", "label ", "drain "} {
			if strings.Contains(s.calls, change) {
				t.Errorf("%s: kubectl was asked for %s", name, s.calls)
			}
		}
	}
}

// What the script applies has the image, the class of storage and the label by which a drain finds its pods, and its
// own secrets, whatever the overlay.
func TestSmokeRenders(t *testing.T) {
	for name, test := range map[string]struct {
		args  []string
		image string
	}{
		"base":       {[]string{"--image", "registry.example:5000/quorate:1.2"}, "registry.example:5000/quorate:1.2"},
		"no tag":     {[]string{"--image", "registry.example:5000/quorate"}, "registry.example:5000/quorate:latest"},
		"digest":     {[]string{"--image", "r.example/q@sha256:" + strings.Repeat("a", 64)}, "r.example/q@sha256:" + strings.Repeat("a", 64)},
		"production": {[]string{"--overlay", "production", "--image", "q:1"}, "q:1"},
	} {
		s := runSmoke(t, absent, append([]string{"--yes", "--storage-class", "fast", "--timeout", "1"}, test.args...)...)
		if s.code != 1 || !strings.Contains(s.last, "3 pods that are ready did not come within 1 s") {
			t.Fatalf("%s: code %d, %s, %s", name, s.code, s.last, s.errs)
		}
		o := build(t, filepath.Join(s.dir, "applied", "overlays", "smoke"))
		set := o.set.Spec
		if got := set.Template.Spec.Containers[0].Image; got != test.image {
			t.Errorf("%s: the image is %s, want %s", name, got, test.image)
		}
		if c := set.VolumeClaimTemplates[0].Spec.StorageClassName; c == nil || *c != "fast" {
			t.Errorf("%s: the class of storage is %v", name, c)
		}
		if l, a := set.Template.Labels["quorate-smoke"], set.Template.Annotations["quorate-smoke"]; l != "yes" || a != "first" {
			t.Errorf("%s: the label is %q, the annotation %q", name, l, a)
		}
		if *set.Replicas != 3 || len(o.secrets) != 0 {
			t.Errorf("%s: %d replicas, secrets %v", name, *set.Replicas, o.secrets)
		}
		for _, secret := range []string{"quorate-gossip", "quorate-default-user"} {
			if !strings.Contains(s.calls, fmt.Sprintf("create secret generic %s ", secret)) {
				t.Errorf("%s: no secret %s was made", name, secret)
			}
		}
		if strings.Contains(s.last+s.errs, "password") {
			t.Errorf("%s: %s%s", name, s.last, s.errs)
		}
		if !strings.Contains(s.calls, "delete namespace quorate-smoke") {
			t.Errorf("%s: the namespace was not taken away", name)
		}
	}
}

// The pod of the clients is what the API server takes, and no more than the namespace may demand of pods.
func TestSmokePod(t *testing.T) {
	script, err := os.ReadFile("../smoke.sh")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(script), "<<YAML\n")
	text, _, found := strings.Cut(text, "\nYAML\n")
	if !found {
		t.Fatal("the script has no pod")
	}
	o, _, err := strictDecoder(t).Decode([]byte(os.Expand(text, func(string) string { return "x" })), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pod, is := o.(*corev1.Pod)
	if !is {
		t.Fatalf("it is a %T", o)
	}
	c := pod.Spec.Containers[0].SecurityContext
	if !isTrue(pod.Spec.SecurityContext.RunAsNonRoot) || isTrue(c.AllowPrivilegeEscalation) || len(c.Capabilities.Drop) != 1 || pod.Spec.SecurityContext.SeccompProfile == nil {
		t.Errorf("its rights are %+v, %+v", pod.Spec.SecurityContext, c)
	}
}
