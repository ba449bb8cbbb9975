package k8s

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The tls overlay gives every pod of the set the pair of its own name, from files that
// Kubernetes keeps up to date, and nobody else can read.
func TestTLSOverlay(t *testing.T) {
	o := build(t, "../overlays/tls")
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
