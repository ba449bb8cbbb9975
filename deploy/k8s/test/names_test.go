package k8s

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

var metricName = regexp.MustCompile("`((?:quorate|rabbitmq)_[a-z0-9_]+)`")

// exported returns the names that there are to ask for: the node's, which docs/metrics.md lists and the
// test of package metrics compares with the node; the process's; Prometheus's own; and what rules record.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{"up": true}
	page, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(page), "\n") {
		if strings.HasPrefix(line, "| `") { // a row of a table, not the text
			for _, name := range metricName.FindAllStringSubmatch(line, -1) {
				names[name[1]] = true
				if strings.Contains(line, "| histogram |") {
					names[name[1]+"_bucket"] = true
				}
			}
		}
	}
	if len(names) < 100 {
		t.Fatalf("docs/metrics.md lists %d names", len(names))
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		names[family.GetName()] = true
	}
	for _, group := range rules(t) {
		for _, r := range group.Rules {
			if r.Record != "" {
				names[r.Record] = true
			}
		}
	}
	return names
}

// unknownNames returns the names that an expression asks for and that nobody exports.
func unknownNames(t *testing.T, expr string, known map[string]bool) []string {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %v", expr, err)
		return nil
	}
	var unknown []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		selector, is := node.(*parser.VectorSelector)
		if !is {
			return nil
		}
		for _, m := range selector.LabelMatchers {
			if m.Name == model.MetricNameLabel && (m.Type != labels.MatchEqual || !known[m.Value]) {
				unknown = append(unknown, m.Value)
			}
		}
		return nil
	})
	return unknown
}

// Rules ask for what there is.
func TestNamesOfRules(t *testing.T) {
	known := exported(t)
	for _, group := range rules(t) {
		for _, r := range group.Rules {
			if unknown := unknownNames(t, r.Expr, known); len(unknown) > 0 {
				t.Errorf("%s%s asks for %v, which no node exports", r.Alert, r.Record, unknown)
			}
		}
	}
	if len(unknownNames(t, "sum(quorate_queue_messages_raedy)", known)) != 1 {
		t.Error("a misspelt name was accepted")
	}
}
