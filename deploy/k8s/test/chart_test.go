package k8s

import (
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/yaml"
)

const (
	chartDir = "../../helm/quorate"
	notes    = "NOTES.txt"
)

// chartValues are the chart's own sets of values, and one that switches everything on.
var chartValues = map[string][]string{
	"chart":            nil,
	"chart-base":       {"../chart-values.yaml"},
	"chart-dev":        {chartDir + "/values-dev.yaml"},
	"chart-tls":        {"../chart-values.yaml", chartDir + "/values-tls.yaml"},
	"chart-production": {chartDir + "/values-production.yaml"},
	"chart-everything": {chartDir + "/values-tls.yaml", "testdata/everything.yaml"},
}

// values reads files, the later over the earlier ones.
func values(t *testing.T, files ...string) chartutil.Values {
	t.Helper()
	all := chartutil.Values{}
	for _, file := range files {
		v, err := chartutil.ReadValuesFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = chartutil.CoalesceTables(v, all)
	}
	return all
}

// renderChart does what `helm template quorate --namespace quorate` does. The result is by the
// name of the template's file.
func renderChart(release string, values chartutil.Values) (map[string]string, error) {
	chart, err := loader.LoadDir(chartDir)
	if err != nil {
		return nil, err
	}
	options := chartutil.ReleaseOptions{Name: release, Namespace: "quorate", IsInstall: true, Revision: 1}
	all, err := chartutil.ToRenderValues(chart, values, options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.Render(chart, all)
	if err != nil {
		return nil, err
	}
	rendered := map[string]string{}
	for name, text := range files {
		rendered[path.Base(name)] = text
	}
	return rendered, nil
}

// buildChart renders the chart and decodes every object strictly.
func buildChart(t *testing.T, release string, v chartutil.Values) *objects {
	t.Helper()
	rendered, err := renderChart(release, v)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if name != notes && !strings.HasPrefix(name, "_") {
			texts = append(texts, documents(rendered[name])...)
		}
	}
	return decode(t, release, texts)
}

var separator = regexp.MustCompile(`(?m)^---\n`)

// documents parts a file at its separators, and leaves out what has comments alone.
func documents(text string) []string {
	return slices.DeleteFunc(separator.Split(text, -1), func(d string) bool {
		return !strings.Contains(d, "apiVersion:")
	})
}

// What `helm lint` says of the chart, with each set of values.
func TestLint(t *testing.T) {
	for name, files := range chartValues {
		result := lint.All(chartDir, values(t, files...), "quorate", true)
		for _, m := range result.Messages {
			// An icon is for catalogues of charts.
			if m.Severity >= support.WarningSev || (m.Severity == support.InfoSev && !strings.Contains(m.Err.Error(), "icon is recommended")) {
				t.Errorf("%s: %s", name, m)
			}
		}
	}
}

// The chart is of the version that the repository is.
func TestChartVersion(t *testing.T) {
	text, err := os.ReadFile("../../../VERSION")
	if err != nil {
		t.Fatal(err)
	}
	version := strings.TrimSpace(string(text))
	chart, err := loader.LoadDir(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	if chart.Metadata.Version != version || chart.Metadata.AppVersion != version {
		t.Errorf("chart %s of %s, VERSION %s", chart.Metadata.Version, chart.Metadata.AppVersion, version)
	}
}

// A wrong value is refused by its name, before anything is made of it.
func TestSchema(t *testing.T) {
	for value, want := range map[string]string{
		"replica: 5":                           "replica",
		"replicas: three":                      "replicas",
		"replicas: 0":                          "replicas",
		"image: {pullPolicy: always}":          "pullPolicy",
		"drainSeconds: 60s":                    "drainSeconds",
		"drainSeconds: 3600":                   "drainSeconds",
		"gossip: {key: c2hvcnQ=}":              "key",
		"gossip: {secret: mine}":               "secret",
		"defaultUser: {username: ''}":          "username",
		"resources: {limits: {memory: 2 Gi}}":  "memory",
		"storage: {size: large}":               "size",
		"storage: {whenDeleted: Keep}":         "whenDeleted",
		"antiAffinity: none":                   "antiAffinity",
		"zoneSpread: maybe":                    "zoneSpread",
		"tls: {enabled: 'yes'}":                "enabled",
		"tls: {certManager: {peerIssuer: {}}}": "",
		"service: {type: Ingress}":             "type",
		"monitoring: {monitor: true}":          "monitor",
		"monitoring: {interval: often}":        "interval",
		"definitions: {document: queues}":      "document",
	} {
		var v chartutil.Values
		if err := yaml.Unmarshal([]byte(value), &v); err != nil {
			t.Fatal(err)
		}
		_, err := renderChart("quorate", v)
		if want == "" { // a table is laid over the chart's own
			if err != nil {
				t.Errorf("%s: %v", value, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "schema") {
			t.Errorf("%s: error %v, want one of the schema that names %s", value, err, want)
		}
	}
}

// Two releases in one namespace share no object, and no pod is selected by the other's.
func TestTwoReleases(t *testing.T) {
	one, two := buildChart(t, "quorate", values(t, chartDir+"/values-dev.yaml")), buildChart(t, "orders", values(t, chartDir+"/values-dev.yaml"))
	for name := range one.all {
		if two.all[name] != nil {
			t.Errorf("both have %s", name)
		}
	}
	if selects(t, one.set.Spec.Selector, two.set.Spec.Template.Labels) {
		t.Errorf("the selector %v takes the other's pods", one.set.Spec.Selector)
	}
	if join := configOf(t, two).Cluster.Join; !slices.Equal(join, []string{"orders-quorate-headless:7072", "orders-quorate-join:7072"}) {
		t.Errorf("the second joins %v", join)
	}
}

// A changed setting, or document of definitions, rolls through the pods; the number of nodes alone does not.
func TestChecksum(t *testing.T) {
	sum := func(text, of string) string {
		var v chartutil.Values
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		return buildChart(t, "quorate", v).set.Spec.Template.Annotations["checksum/"+of]
	}
	plain, five, other := sum("{}", "config"), sum("replicas: 5", "config"), sum("config: {log: {level: debug}}", "config")
	if plain == "" || plain != five || plain == other {
		t.Errorf("sums %q, of five nodes %q, of another setting %q", plain, five, other)
	}
	one, two := sum("definitions: {document: {vhosts: [{name: a}]}}", "definitions"), sum("definitions: {document: {vhosts: [{name: b}]}}", "definitions")
	if one == "" || one == two {
		t.Errorf("sums of two documents %q and %q", one, two)
	}
}

// The notes say what to type next.
func TestNotes(t *testing.T) {
	rendered, err := renderChart("quorate", values(t, chartValues["chart"]...))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"kubectl -n quorate rollout status statefulset/quorate", "get secret quorate-default-user", "port-forward service/quorate 7070", "-a 127.0.0.1:7070 --user admin cluster status",
	} {
		if !strings.Contains(rendered[notes], want) {
			t.Errorf("the notes lack %q:\n%s", want, rendered[notes])
		}
	}
}
