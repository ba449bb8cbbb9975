package k8s

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the manifests anew")

// The manifests are those in testdata, which deploy/k8s/test decodes as the API server does.
func TestManifests(t *testing.T) {
	c := &Cluster{options: Options{Namespace: "mq", PauseImage: "busybox:stable"}}
	var p pod
	p.Metadata.UID, p.Spec.NodeName = "0a1b2c3d-1111-2222-3333-444455556666", "worker-1"
	for name, got := range map[string]string{
		"policy": c.policy("quorate-0", map[string]string{"quorate-1": "10.0.0.2", "quorate-2": "10.0.0.3"}),
		"six":    c.policy("quorate-0", map[string]string{"quorate-1": "fd00::2", "quorate-2": ""}),
		"pause":  c.pausePod("quorate-0", &p),
	} {
		file := filepath.Join("testdata", name+".json")
		if *rewrite {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || got != string(want) {
			t.Errorf("%s: %v; go test ./chaos/target/k8s -args -rewrite writes it anew; now\n%s", file, err, got)
		}
	}
}
