package k8s

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

var rewrite = flag.Bool("rewrite", false, "write what is made from the chart and from tables")

// madeFrom says which file of the kustomization is made from which template of the chart.
var madeFrom = map[string]string{
	"../base/service-account.yaml":             "service-account.yaml",
	"../base/services.yaml":                    "services.yaml",
	"../base/network-policy.yaml":              "network-policy.yaml",
	"../base/pod-disruption-budget.yaml":       "pod-disruption-budget.yaml",
	"../base/stateful-set.yaml":                "stateful-set.yaml",
	"../base/node.yaml":                        "config-map.yaml",
	"../components/monitoring/monitoring.yaml": "monitoring.yaml",
}

// What Helm alone needs: labels of the release, and the sum by which pods follow a changed file, for
// which kustomize changes the file's name.
var helmsOwn = regexp.MustCompile(`(?m)^ +annotations:\n +#.*\n +checksum/config: .*\n|^ +(app\.kubernetes\.io/(instance|managed-by|version)|helm\.sh/chart): .*\n`)

// Base and components are what the chart makes of chart-values.yaml.
func TestMadeFromTheChart(t *testing.T) {
	rendered, err := renderChart("quorate", values(t, "../chart-values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for file, template := range madeFrom {
		want := "# Made from deploy/helm/quorate/templates/" + template + " by make rewrite.\n"
		text := helmsOwn.ReplaceAllString(rendered[template], "")
		if template == "config-map.yaml" {
			text = "# What differs between pods comes from the environment, in stateful-set.yaml.\n" + configOfText(t, text)
		}
		want += strings.TrimSpace(text) + "\n"
		wantFile(t, file, want)
	}
}

func configOfText(t *testing.T, text string) string {
	t.Helper()
	object, _, err := strictDecoder(t).Decode([]byte(text), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := &objects{all: map[string]runtime.Object{}}
	if err := o.add(object); err != nil {
		t.Fatal(err)
	}
	return o.config.Data["node.yaml"]
}

// wantFile compares a file that is made, or writes it.
func wantFile(t *testing.T, file, want string) {
	t.Helper()
	got, err := os.ReadFile(file)
	if err != nil && !*rewrite {
		t.Fatal(err)
	}
	if string(got) == want {
		return
	}
	if !*rewrite {
		t.Errorf("%s is not what it is made from (- has, + should have): run make rewrite\n%s", file, cmp.Diff(string(got), want))
		return
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// sameFile compares a copy with its original, or writes it.
func sameFile(t *testing.T, copied, original string) {
	t.Helper()
	wantFile(t, copied, readFile(t, original))
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The chart's values and the overlays of the same name make the same objects.
func TestSameObjects(t *testing.T) {
	for overlay, name := range map[string]string{
		"../overlays/dev": "chart-dev", "../overlays/tls": "chart-tls", "../overlays/production": "chart-production",
	} {
		t.Run(filepath.Base(overlay), func(t *testing.T) {
			v := values(t, chartValues[name]...)
			if name == "chart-tls" {
				delete(v, "monitoring") // a component of its own
			}
			chart, kustomize := comparable(t, buildChart(t, "quorate", v)), comparable(t, build(t, overlay))
			for _, key := range slices.Sorted(maps.Keys(chart)) {
				if diff := cmp.Diff(chart[key], kustomize[key]); diff != "" {
					t.Errorf("%s (- chart, + overlay):\n%s", key, diff)
				}
				delete(kustomize, key)
			}
			for key := range kustomize {
				t.Errorf("the overlay alone has %s", key)
			}
		})
	}
}

var hash = regexp.MustCompile(`^quorate-config-[a-z0-9]{10}$`)

// comparable returns the objects without what differs between the two ways by design.
func comparable(t *testing.T, o *objects) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, object := range o.all {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			t.Fatal(err)
		}
		kept, _ := bare("", fields).(map[string]any)
		name, _ := kept["metadata"].(map[string]any)["name"].(string)
		out[object.GetObjectKind().GroupVersionKind().Kind+"/"+name] = kept
	}
	return out
}

// bare drops what is Helm's own, the hash in a name, what is empty, and the order where it says nothing.
func bare(key string, v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k, field := range x {
			own := strings.HasPrefix(k, "helm.sh/") || k == "checksum/config" ||
				k == "app.kubernetes.io/instance" || k == "app.kubernetes.io/managed-by" || k == "app.kubernetes.io/version"
			if x[k] = bare(k, field); own || x[k] == nil {
				delete(x, k)
			}
		}
		if len(x) == 0 {
			return nil
		}
	case []any:
		for i := range x {
			x[i] = bare("", x[i])
		}
		if key == "env" || key == "volumes" || key == "volumeMounts" {
			slices.SortFunc(x, func(a, b any) int { return strings.Compare(nameOf(a), nameOf(b)) })
		}
	case string:
		switch {
		case hash.MatchString(x):
			return "quorate-config"
		case key == "node.yaml": // with comments or without
			var file any
			if err := yaml.Unmarshal([]byte(x), &file); err != nil {
				return err
			}
			return file
		}
	}
	return v
}

func nameOf(v any) string {
	fields, _ := v.(map[string]any)
	name, _ := fields["name"].(string)
	return name
}
