package k8s

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/jsonpath"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

const lostMajority = runbooksDir + "lost-majority.md"

// kubectl stands for the program: it keeps what it is called with, and answers what it is asked by a JSONPath.
const kubectl = `#!/bin/bash
n=$(printf %%03d "$(ls "$KEPT" | wc -l)")
printf '%%s\n' "$*" >"$KEPT/$n"
case "$*" in *" -f -"*) cat >>"$KEPT/$n" ;; esac
case "$*" in
*.status.phase*) echo Succeeded ;;
*logs*) echo "Done. Start node" ;;
%s
esac
`

// paths finds what the runbook asks of the StatefulSet.
var paths = regexp.MustCompile(`get statefulset .* -o jsonpath='([^']+)'`)

// steps returns the commands of the runbook for Kubernetes.
func steps(t *testing.T) string {
	t.Helper()
	_, text, found := strings.Cut(readFile(t, lostMajority), "\n## On Kubernetes\n")
	var all []string
	for _, block := range regexp.MustCompile("(?s)   ```sh\n(.*?)   ```\n").FindAllStringSubmatch(text, -1) {
		all = append(all, regexp.MustCompile(`(?m)^ {3}`).ReplaceAllString(block[1], ""))
	}
	if !found || len(all) < 7 {
		t.Fatalf("%s has %d steps for Kubernetes", lostMajority, len(all))
	}
	return strings.Join(all, "")
}

// ask answers a JSONPath as kubectl does.
func ask(t *testing.T, of any, path string) string {
	t.Helper()
	text, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	j := jsonpath.New("path")
	if err := j.Parse(path); err != nil {
		t.Fatal(err)
	}
	if err := j.Execute(&out, plain); err != nil || out.Len() == 0 {
		t.Fatalf("%s finds %q: %v", path, out.String(), err)
	}
	return out.String()
}

// commands runs the runbook, and returns what it has called kubectl with.
func commands(t *testing.T, o *objects) []string {
	t.Helper()
	script := steps(t)
	answers := ""
	for _, p := range paths.FindAllStringSubmatch(script, -1) {
		answers += fmt.Sprintf("*'%s'*) printf %%s '%s' ;;\n", p[1], ask(t, o.set, p[1]))
	}
	dir, kept := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), fmt.Appendf(nil, kubectl, answers), 0o700); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	run.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "KEPT="+kept)
	if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), "Done. Start node") {
		t.Fatalf("%v\n%s", err, out)
	}
	files, err := os.ReadDir(kept)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range files {
		all = append(all, readFile(t, filepath.Join(kept, f.Name())))
	}
	return all
}

// The steps of the runbook make a pod that the level restricted lets in, which reads the settings and writes the data where a
// node does, as the user who owns them; and they scale and delete what there is.
func TestLostMajorityOnKubernetes(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	each(t, func(t *testing.T, o *objects) {
		all := commands(t, o)
		var pods []*corev1.Pod
		for _, c := range all {
			_, text, made := strings.Cut(c, "create -f -\n")
			if !made {
				continue
			}
			object, _, err := strictDecoder(t).Decode([]byte(text), nil, nil)
			if err != nil {
				t.Fatalf("%v in\n%s", err, text)
			}
			pods = append(pods, object.(*corev1.Pod)) //nolint:errcheck,forcetypeassert // a panic is as good
		}
		if len(pods) != 2 {
			t.Fatalf("there are %d pods: %q", len(pods), all)
		}
		lost := []string{"recover", "--config", "/etc/quorate/node.yaml", "--lost", "quorate-1,quorate-2"}
		for i, want := range [][]string{lost, append(slices.Clone(lost), "--accept-loss", "quorate-1,quorate-2")} {
			p := pods[i]
			if result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &p.ObjectMeta, &p.Spec)); !result.Allowed {
				t.Errorf("the level restricted forbids it: %s: %s", result.ForbiddenReason(), result.ForbiddenDetail())
			}
			if !slices.Equal(p.Spec.Containers[0].Args, want) {
				t.Errorf("args %q, want %q", p.Spec.Containers[0].Args, want)
			}
			likeNode(t, o, p)
		}
		for _, want := range []string{
			`-n quorate patch statefulset quorate --type=merge -p {"spec":{"replicas":0,"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Retain","whenDeleted":"Retain"}}}`,
			"-n quorate delete pvc data-quorate-1 data-quorate-2", "-n quorate scale statefulset quorate --replicas=3",
		} {
			if !slices.Contains(all, want+"\n") {
				t.Errorf("%q is not among %q", want, all)
			}
		}
	})
}

// likeNode compares the pod with those of the nodes: its image, user, settings and data.
func likeNode(t *testing.T, o *objects, p *corev1.Pod) {
	t.Helper()
	c, n, spec := p.Spec.Containers[0], node(t, o), o.set.Spec.Template.Spec
	own, nodes := p.Spec.SecurityContext, spec.SecurityContext
	if c.Image != n.Image || *own.RunAsUser != *nodes.RunAsUser || *own.FSGroup != *nodes.FSGroup || !isFalse(p.Spec.EnableServiceLinks) || p.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("the pod is %+v", p.Spec)
	}
	if env(c, "QUORATE_NODE_ID").Value != "quorate-0" {
		t.Errorf("environment %v", c.Env)
	}
	for _, volume := range []string{"data", "config"} {
		if mount(c, volume).MountPath != mount(n, volume).MountPath {
			t.Errorf("%s is mounted at %q, in a node at %q", volume, mount(c, volume).MountPath, mount(n, volume).MountPath)
		}
	}
	for _, v := range p.Spec.Volumes {
		switch {
		case v.Name == "data" && v.PersistentVolumeClaim.ClaimName != o.set.Spec.VolumeClaimTemplates[0].Name+"-quorate-0":
			t.Errorf("the data is of claim %q", v.PersistentVolumeClaim.ClaimName)
		case v.Name == "config" && v.ConfigMap.Name != o.config.Name:
			t.Errorf("the settings are of ConfigMap %q, want %q", v.ConfigMap.Name, o.config.Name)
		}
	}
}
