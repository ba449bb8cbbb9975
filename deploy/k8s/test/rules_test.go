package k8s

import (
	"errors"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/template"
	"sigs.k8s.io/yaml"
)

const (
	rulesFile   = chartDir + "/files/rules.yaml"
	runbookPage = "https://github.com/quorate/quorate/blob/main/docs/operations.md#"
)

// rules reads the file as Prometheus does, templates of annotations included.
func rules(t *testing.T) []rulefmt.RuleGroup {
	t.Helper()
	parsed, faults := rulefmt.ParseFile(rulesFile, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if err := errors.Join(faults...); err != nil {
		t.Fatal(err)
	}
	return parsed.Groups
}

// Every alert says how bad it is, and has a line in docs/operations.md; every line has an alert.
func TestRunbooks(t *testing.T) {
	text, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]bool{}
	for line := range strings.SplitSeq(string(text), "\n") {
		if rest, found := strings.CutPrefix(line, `| <a id="quorate`); found {
			lines[`| <a id="quorate`+rest] = true
		}
	}
	for _, group := range rules(t) {
		for _, r := range group.Rules {
			if r.Alert == "" {
				continue
			}
			anchor, severity := strings.ToLower(r.Alert), r.Labels["severity"]
			if !slices.Contains([]string{"critical", "warning", "info"}, severity) || r.Annotations["summary"] == "" {
				t.Errorf("%s has the severity %q and the summary %q", r.Alert, severity, r.Annotations["summary"])
			}
			if got := r.Annotations["runbook_url"]; got != runbookPage+anchor {
				t.Errorf("%s: runbook_url is %q, want %q", r.Alert, got, runbookPage+anchor)
			}
			begin, found := `| <a id="`+anchor+`"></a>`+"`"+r.Alert+"` | "+severity+" |", false
			for line := range lines {
				if strings.HasPrefix(line, begin) {
					found = true
					delete(lines, line)
				}
			}
			if !found {
				t.Errorf("docs/operations.md has no line that begins with %s", begin)
			}
		}
	}
	for line := range lines {
		t.Errorf("docs/operations.md has a line without an alert: %s", line)
	}
}

// ruleTests is promtool's form, as far as it is used.
type ruleTests struct {
	RuleFiles []string       `json:"rule_files"`
	Interval  model.Duration `json:"evaluation_interval"`
	Tests     []ruleTest     `json:"tests"`
}

type ruleTest struct {
	Name     string         `json:"name"`
	Interval model.Duration `json:"interval"`
	Input    []struct {
		Series string `json:"series"`
		Values string `json:"values"`
	} `json:"input_series"`
	Alerts []struct {
		At   model.Duration `json:"eval_time"`
		Name string         `json:"alertname"`
		Want []struct {
			Labels      map[string]string `json:"exp_labels"`
			Annotations map[string]string `json:"exp_annotations"`
		} `json:"exp_alerts"`
	} `json:"alert_rule_test"`
}

// Every alert fires by the series that are to make it fire, after its time and not before, and keeps
// quiet by others. `promtool test rules testdata/rules.yaml` does the same.
func TestRules(t *testing.T) {
	text, err := os.ReadFile("testdata/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file ruleTests
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		t.Run(test.Name, func(t *testing.T) {
			fired := false
			for _, a := range test.Alerts {
				got := firing(t, test, a.Name, time.Duration(file.Interval), time.Duration(a.At))
				want := make([]string, 0, len(a.Want))
				for _, w := range a.Want {
					want = append(want, alertText(w.Labels, w.Annotations))
				}
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("%s after %v: fires for %v, want %v", a.Name, a.At, got, want)
				}
				fired = fired || len(want) > 0
				quiet[a.Name] = quiet[a.Name] || !fired && len(test.Alerts) == 1
				fires[a.Name] = fires[a.Name] || fired
			}
		})
	}
	for _, group := range rules(t) {
		for _, r := range group.Rules {
			if r.Alert != "" && (!fires[r.Alert] || !quiet[r.Alert]) {
				t.Errorf("%s has no test that makes it fire, or none that does not", r.Alert)
			}
		}
	}
}

// alertText is what an alert says: its labels and its annotations.
func alertText(names, annotations map[string]string) string {
	return labels.FromMap(names).String() + " " + labels.FromMap(annotations).String()
}

// firing evaluates the alert, and all that is recorded, at each interval until then, and returns what
// fires at the end.
func firing(t *testing.T, test ruleTest, alert string, every, until time.Duration) []string {
	t.Helper()
	s := newSeries(t)
	for _, in := range test.Input {
		s.load(in.Series, in.Values, time.Duration(test.Interval))
	}
	groups := rules(t)
	since := map[string]time.Duration{}
	out := []string{}
	for now := time.Duration(0); now <= until; now += every {
		for _, group := range groups {
			for _, r := range group.Rules {
				switch {
				case r.Record != "":
					s.record(r.Record, s.query(r.Expr, now), now)
				case r.Alert == alert:
					since, out = evaluate(t, r, s.query(r.Expr, now), since, now)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// evaluate returns since when the alert holds for each of what was found, by its labels, and what
// those say for which it has held long enough.
func evaluate(t *testing.T, r rulefmt.Rule, found promql.Vector, before map[string]time.Duration, now time.Duration) (map[string]time.Duration, []string) {
	t.Helper()
	since, out := map[string]time.Duration{}, []string{}
	for _, sample := range found {
		all := sample.Metric.Map()
		delete(all, model.MetricNameLabel)
		data := template.AlertTemplateData(maps.Clone(all), nil, "", sample)
		maps.Copy(all, r.Labels)
		name := labels.FromMap(all).String()
		since[name] = now
		if began, known := before[name]; known {
			since[name] = began
		}
		if now-since[name] < time.Duration(r.For) {
			continue
		}
		said := map[string]string{}
		for key, text := range r.Annotations {
			text = "{{$labels := .Labels}}{{$value := .Value}}" + text
			expanded, err := template.NewTemplateExpander(t.Context(), text, r.Alert, data, model.Time(now.Milliseconds()), nil, &url.URL{}, nil).Expand()
			if err != nil {
				t.Errorf("%s: %s: %v", r.Alert, key, err)
			}
			said[key] = expanded
		}
		out = append(out, alertText(all, said))
	}
	return since, out
}
