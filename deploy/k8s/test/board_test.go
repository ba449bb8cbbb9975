package k8s

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

const (
	grafanaDir = "../../grafana/"
	boardWidth = 24
	statHeight = 4
	lineHeight = 8
)

var variables = strings.NewReplacer(
	"$sum", `job="quorate",namespace=~"$namespace",instance=~"$instance"`,
	"$each", `job="quorate-queues",namespace=~"$namespace"`,
)

// The boards are what the table makes of them, and the chart has them too: it can only read files of its own.
func TestBoards(t *testing.T) {
	for _, b := range boards() {
		text, err := json.MarshalIndent(boardJSON(b), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		wantFile(t, grafanaDir+b.file+".json", string(text)+"\n")
	}
	files, err := os.ReadDir(grafanaDir)
	if err != nil || len(files) != len(boards()) {
		t.Errorf("%s has %d files, want the %d boards: %v", grafanaDir, len(files), len(boards()), err)
	}
	for _, f := range files {
		sameFile(t, chartDir+"/files/grafana/"+f.Name(), grafanaDir+f.Name())
	}
}

// The boards ask for what there is, once for each picture, and every picture has a place of its own.
func TestNamesOfBoards(t *testing.T) {
	known := exported(t)
	for _, b := range boards() {
		titles, pictures := map[string]bool{}, 0
		for _, r := range b.rows {
			if len(r.panels) == 0 || boardWidth%len(r.panels) != 0 {
				t.Errorf("%s: row %s has %d panels, which do not fill %d columns", b.file, r.title, len(r.panels), boardWidth)
			}
			for _, p := range r.panels {
				pictures++
				if titles[p.title] {
					t.Errorf("%s: two pictures are called %q", b.file, p.title)
				}
				titles[p.title] = true
				checkQueries(t, p, known)
			}
		}
		if places := len(placesOf(boardJSON(b))); places != pictures {
			t.Errorf("%s: %d pictures have %d places", b.file, pictures, places)
		}
	}
}

// checkQueries looks at what a picture asks for.
func checkQueries(t *testing.T, p panel, known map[string]bool) {
	t.Helper()
	for _, q := range p.queries {
		expr := strings.ReplaceAll(variables.Replace(q.expr), "$__rate_interval", "5m")
		if unknown := unknownNames(t, expr, known); len(unknown) > 0 {
			t.Errorf("%s asks for %v, which no node exports", p.title, unknown)
		}
		if !strings.Contains(expr, "$namespace") {
			t.Errorf("%s: %s does not go by the board's variables", p.title, q.expr)
		}
	}
}

func placesOf(b map[string]any) map[string]bool {
	places := map[string]bool{}
	panels, _ := b["panels"].([]any)
	for _, one := range panels {
		if p, _ := one.(map[string]any); p["type"] != "row" {
			at, _ := json.Marshal(p["gridPos"])
			places[string(at)] = true
		}
	}
	return places
}

// boardJSON is a board in Grafana's form: its rows one below the other, the panels of a row side by side.
func boardJSON(b board) map[string]any {
	var panels []any
	y := 0
	for _, r := range b.rows {
		panels = append(panels, map[string]any{
			"id": len(panels) + 1, "type": "row", "title": r.title, "collapsed": false, "panels": []any{},
			"gridPos": map[string]int{"x": 0, "y": y, "w": boardWidth, "h": 1},
		})
		y++
		height, width := lineHeight, boardWidth/len(r.panels)
		if r.panels[0].kind == stat {
			height = statHeight
		}
		for i, p := range r.panels {
			one := panelJSON(p)
			one["id"] = len(panels) + 1
			one["gridPos"] = map[string]int{"x": i * width, "y": y, "w": width, "h": height}
			panels = append(panels, one)
		}
		y += height
	}
	return map[string]any{
		"uid": "quorate-" + b.file, "title": b.title, "tags": []string{"quorate"}, "schemaVersion": 39, "version": 1, "editable": true,
		"time": map[string]string{"from": "now-1h", "to": "now"}, "refresh": "30s", "timezone": "browser", "graphTooltip": 1,
		"links": []any{map[string]any{ // to the other boards, with the same time and choice
			"type": "dashboards", "title": "Quorate", "tags": []string{"quorate"}, "asDropdown": false, "includeVars": true, "keepTime": true,
		}},
		"panels": panels, "templating": map[string]any{"list": []any{
			map[string]any{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
			choice("namespace", "Namespace", `label_values(up{job="quorate"}, namespace)`),
			choice("instance", "Node", `label_values(up{job="quorate",namespace=~"$namespace"}, instance)`),
		}},
	}
}

// choice is a variable; All takes series without the label too, as outside Kubernetes.
func choice(name, label, query string) map[string]any {
	return map[string]any{
		"name": name, "label": label, "type": "query", "query": query, "definition": query, "datasource": source(),
		"refresh": 2, "sort": 1, "includeAll": true, "multi": true, "allValue": ".*",
		"current": map[string]any{"text": []string{"All"}, "value": []string{"$__all"}},
	}
}

func source() map[string]string {
	return map[string]string{"type": "prometheus", "uid": "${datasource}"}
}

func panelJSON(p panel) map[string]any {
	var targets []any
	for i, q := range p.queries {
		legend := q.legend
		if legend == "" {
			legend = p.title
		}
		targets = append(targets, map[string]any{
			"refId": string(rune('A' + i)), "expr": variables.Replace(q.expr), "legendFormat": legend, "datasource": source(),
		})
	}
	defaults := map[string]any{"unit": p.unit, "min": 0}
	if strings.Contains(p.title, "clocks") { // may be behind
		delete(defaults, "min")
	}
	out := map[string]any{
		"title": p.title, "description": p.about, "type": "timeseries", "datasource": source(), "targets": targets,
		"fieldConfig": map[string]any{"defaults": defaults, "overrides": []any{}},
		"options":     map[string]any{"tooltip": map[string]string{"mode": "multi", "sort": "desc"}},
	}
	if p.kind != "" {
		out["type"] = p.kind
		out["options"] = map[string]any{"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}}, "colorMode": "none"}
	}
	return out
}
