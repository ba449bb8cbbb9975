package k8s

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// With TLS every pod of the set has the pair of its own name, from files that Kubernetes keeps up
// to date, and nobody else can read.
func TestTLS(t *testing.T) {
	t.Run("overlay", func(t *testing.T) { ownPairs(t, build(t, "../overlays/tls")) })
	for _, name := range []string{"chart-tls", "chart-everything"} {
		t.Run(name, func(t *testing.T) { ownPairs(t, buildChart(t, "quorate", values(t, chartValues[name]...))) })
	}
}

func ownPairs(t *testing.T, o *objects) {
	t.Helper()
	c, spec := node(t, o), o.set.Spec.Template.Spec
	there := map[string]bool{}
	for _, v := range spec.Volumes {
		dir := mount(c, v.Name)
		for _, item := range secretItems(t, v) {
			there[path.Join(dir.MountPath, item.Path)] = true
			if path.Base(item.Path) != item.Key {
				t.Errorf("volume %s: key %s is the file %s", v.Name, item.Key, item.Path)
			}
		}
		if strings.HasSuffix(v.Name, "-tls") && (!dir.ReadOnly || dir.SubPath != "" || dir.SubPathExpr != "") {
			t.Errorf("volume %s is mounted as %+v: want it read-only, and whole, so that it is updated", v.Name, dir)
		}
	}
	id := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "QUORATE_NODE_ID" })
	for i := range *o.set.Spec.Replicas {
		pod := fmt.Sprintf("%s-%d", o.set.Name, i)
		for _, name := range []string{"PEER__CERT", "PEER__KEY", "PEER__CA", "CLIENT__CERT", "CLIENT__KEY"} {
			name = "QUORATE_TLS__" + name
			at := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name })
			if at < id {
				t.Fatalf("%s stands at %d, QUORATE_NODE_ID at %d: it must be set, and after it", name, at, id)
			}
			if file := strings.ReplaceAll(c.Env[at].Value, "$(QUORATE_NODE_ID)", pod); !there[file] {
				t.Errorf("pod %s: %s is %s, which no secret holds; there are %v", pod, name, file, there)
			}
		}
	}
}

// secretItems returns the files of a volume with secrets, none of another one.
func secretItems(t *testing.T, v corev1.Volume) []corev1.KeyToPath {
	t.Helper()
	var items []corev1.KeyToPath
	var mode *int32
	switch {
	case v.Secret != nil:
		items, mode = v.Secret.Items, v.Secret.DefaultMode
	case v.Projected != nil:
		mode = v.Projected.DefaultMode
		for _, s := range v.Projected.Sources {
			if s.Secret == nil {
				t.Fatalf("volume %s: source %+v is no secret", v.Name, s)
			}
			items = append(items, s.Secret.Items...)
		}
	default:
		return nil
	}
	if mode == nil || *mode != 0o440 {
		t.Errorf("volume %s: mode %v, want 0440", v.Name, mode)
	}
	return items
}

// cert-manager makes every secret that pods mount, with the name by which nodes know one another.
func TestCertificates(t *testing.T) {
	v := values(t, chartValues["chart-everything"]...)
	v["config"] = map[string]any{"cluster": map[string]any{"name": "orders"}}
	o := buildChart(t, "quorate", v)
	made := map[string]string{}
	for name, c := range o.certs {
		if c.Spec.SecretName != name {
			t.Errorf("certificate %s makes the secret %s", name, c.Spec.SecretName)
		}
		made[name] = strings.Join(c.Spec.URIs, " ")
	}
	want := map[string]string{"quorate-client-tls": ""}
	for i := range *o.set.Spec.Replicas {
		want[fmt.Sprintf("quorate-%d-peer-tls", i)] = fmt.Sprintf("quorate://orders/node/quorate-%d", i)
	}
	if !maps.Equal(made, want) {
		t.Errorf("certificates %v, want %v", made, want)
	}
	if hosts := o.certs["quorate-client-tls"].Spec.DNSNames; !slices.Contains(hosts, "quorate.quorate.svc") || !slices.Contains(hosts, "queues.example.com") {
		t.Errorf("clients' hosts are %v", hosts)
	}
}
