package k8s

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

const (
	rulesDir    = "../../prometheus/"
	runbooksDir = "../../../docs/runbooks/"
	// operatorRules is the name of the file of the rules about the operator.
	operatorRules = "operator-rules"
	// runbooksURL is where the pages of runbooksDir are published.
	runbooksURL = "https://github.com/quorate/quorate/blob/main/docs/runbooks/"
)

// rules are those about nodes.
func rules(t *testing.T) []rulefmt.RuleGroup {
	t.Helper()
	return rulesIn(t, "rules.yaml")
}

// rulesIn reads a file as Prometheus does, templates of annotations included.
func rulesIn(t *testing.T, file string) []rulefmt.RuleGroup {
	t.Helper()
	parsed, faults := rulefmt.ParseFile(rulesDir+file, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if err := errors.Join(faults...); err != nil {
		t.Fatal(err)
	}
	return parsed.Groups
}

// The chart has the rules too: it can only read files of its own.
func TestRulesOfTheChart(t *testing.T) {
	sameFile(t, chartDir+"/files/rules.yaml", rulesDir+"rules.yaml")
}

// Every alert says how bad it is and what it means, and its runbook is a section of a page that says the same.
func TestRunbooks(t *testing.T) {
	sections := map[string]int{} // by page: how many alerts point to it
	for _, group := range slices.Concat(rules(t), rulesIn(t, operatorRules+".yaml")) {
		for _, r := range group.Rules {
			if r.Alert == "" {
				continue
			}
			severity, description := r.Labels["severity"], r.Annotations["description"]
			if !slices.Contains([]string{"critical", "warning", "info"}, severity) || r.Annotations["summary"] == "" || description == "" {
				t.Errorf("%s has the severity %q, the summary %q and the description %q", r.Alert, severity, r.Annotations["summary"], description)
			}
			page, anchor, _ := strings.Cut(strings.TrimPrefix(r.Annotations["runbook_url"], runbooksURL), "#")
			sections[page]++
			if want := strings.ToLower(r.Alert); anchor != want {
				t.Errorf("%s: runbook_url %q ends in #%s, want #%s", r.Alert, r.Annotations["runbook_url"], anchor, want)
			}
			section := sectionOf(t, page, r.Alert)
			if want := "*" + severity + "*: " + description; !strings.Contains(section, want) || !strings.Contains(section, "What to do: ") {
				t.Errorf("section %s of %s lacks %q, or what to do: %s", r.Alert, page, want, section)
			}
		}
	}
	for page, alerts := range sections {
		if text := readFile(t, runbooksDir+page); strings.Count(text, "\n## Quorate") != alerts {
			t.Errorf("%s has %d sections of alerts, %d alerts point to it", page, strings.Count(text, "\n## Quorate"), alerts)
		}
	}
}

// sectionOf is the text of an alert's section, on one line and without marks of code.
func sectionOf(t *testing.T, page, alert string) string {
	t.Helper()
	_, text, found := strings.Cut(readFile(t, runbooksDir+page), "\n## "+alert+"\n")
	if !found {
		t.Errorf("%s has no section %s", page, alert)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "`", "")
}

// Every alert has a test that makes it fire and one that does not; `make monitoring-test` runs them.
func TestRulesAreTested(t *testing.T) {
	for _, name := range []string{"rules", operatorRules} {
		fires, quiet := triedAlerts(t, name+"_test.yaml")
		for _, group := range rulesIn(t, name+".yaml") {
			for _, r := range group.Rules {
				if r.Alert != "" && (!fires[r.Alert] || !quiet[r.Alert]) {
					t.Errorf("%s has no test in %s%s_test.yaml that makes it fire, or none that does not", r.Alert, rulesDir, name)
				}
			}
		}
	}
}

// triedAlerts returns which alerts a file of tests makes fire, and which ones not.
func triedAlerts(t *testing.T, name string) (fires, quiet map[string]bool) {
	t.Helper()
	var file struct {
		Tests []struct {
			Alerts []struct {
				Name string `json:"alertname"`
				Want []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		} `json:"tests"`
	}
	if err := yaml.Unmarshal([]byte(readFile(t, rulesDir+name)), &file); err != nil {
		t.Fatal(err)
	}
	fires, quiet = map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		fired := map[string]bool{}
		for _, a := range test.Alerts {
			fired[a.Name] = fired[a.Name] || len(a.Want) > 0
		}
		for name, did := range fired {
			fires[name], quiet[name] = fires[name] || did, quiet[name] || !did
		}
	}
	return fires, quiet
}
