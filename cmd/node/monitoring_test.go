package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/quorate/quorate/chaos"
)

// unseen are the figures that alerts and dashboards ask for and that a new node does not show, each with when it does.
var unseen = map[string]string{
	"quorate_dead_letters_waiting":                     "once a dead letter cannot be forwarded",
	"quorate_dead_letter_retries_total":                "once a dead letter could not be forwarded",
	"quorate_dead_letter_copies_lost_total":            "once a dead letter was lost",
	"quorate_tls_certificate_expiry_timestamp_seconds": "with certificates",
}

// Alerts and dashboards ask a real node for what it serves.
func TestMonitoringAsksForWhatIsServed(t *testing.T) {
	c, err := chaos.NewCluster(chaos.ClusterConfig{Binary: build(t), Dir: t.TempDir(), Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	text, status, err := get(ctx, t, "http://"+c.Nodes[0].HTTP+"/metrics")
	if err != nil || status != http.StatusOK {
		t.Fatal(status, err)
	}
	served := map[string]bool{"up": true} // Prometheus adds it
	for _, line := range regexp.MustCompile(`(?m)^[a-z]\w*`).FindAllString(text, -1) {
		served[line] = true
	}
	asked := map[string][]string{} // name: who asks
	recorded := askedByRules(t, asked)
	askedByBoards(t, asked)
	if len(asked) < 60 {
		t.Errorf("only %d names are asked for", len(asked))
	}
	for name, by := range asked {
		if _, excused := unseen[name]; !served[name] && !recorded[name] && !excused {
			t.Errorf("no node serves %s, which %v ask for", name, slices.Compact(by))
		}
	}
	for name, when := range unseen {
		if served[name] || asked[name] == nil {
			t.Errorf("%s (%s) is served: %t, asked for by %v: it needs no excuse", name, when, served[name], asked[name])
		}
	}
}

// askedByRules adds what the rules ask for, and returns what they record.
func askedByRules(t *testing.T, asked map[string][]string) (recorded map[string]bool) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Record, Expr string }
		}
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	recorded = map[string]bool{}
	for _, group := range rules.Groups {
		for _, r := range group.Rules {
			recorded[r.Record] = true
			for _, name := range namesIn(r.Expr) {
				asked[name] = append(asked[name], r.Alert+r.Record)
			}
		}
	}
	return recorded
}

// askedByBoards adds what the dashboards ask for.
func askedByBoards(t *testing.T, asked map[string][]string) {
	t.Helper()
	files, err := filepath.Glob("../../deploy/grafana/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			Panels []struct {
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, p := range board.Panels {
			for _, target := range p.Targets {
				for _, name := range namesIn(target.Expr) {
					asked[name] = append(asked[name], filepath.Base(file))
				}
			}
		}
	}
}

var (
	// beside is what an expression has besides metrics and functions: matchers, ranges, lists of labels, numbers.
	beside = regexp.MustCompile(`\{[^}]*\}|\[[^\]]*\]|\b(by|on|without|ignoring) \([^)]*\)|\boffset \w+|\b[0-9.]+\b`)
	word   = regexp.MustCompile(`[a-zA-Z_:][\w:]*\(?`)
)

// namesIn returns the metrics that an expression asks for. It does not parse: promtool does that for the rules, and the
// tests of deploy/k8s for the dashboards.
func namesIn(expr string) (names []string) {
	for _, w := range word.FindAllString(beside.ReplaceAllString(expr, " "), -1) {
		if w[len(w)-1] != '(' && !slices.Contains([]string{"and", "or", "unless", "sum", "max", "min", "count"}, w) {
			names = append(names, w)
		}
	}
	return names
}
