package rest_test

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/quorate/quorate/management/rest"
)

// quoted is a text that the page shows as code.
var quoted = regexp.MustCompile("`([^`]+)`")

// pathOnPage is a path without the names of its placeholders, as pages and routes may name them differently.
func pathOnPage(text string) string {
	return strings.TrimSuffix(placeholder.ReplaceAllString(text, "{}"), "/")
}

// documented are the paths of docs/http-api.md.
type documented struct {
	paths    map[string]bool // a path that the page shortens, such as "`/api/x/a`, `/b`", in all ways to read it
	below    []string        // all paths below these
	offered  []string        // paths of rows with methods
	withheld []string        // paths of rows without
}

// takes reports whether the page has a path.
func (d *documented) takes(p string) bool {
	if d.paths[p] {
		return true
	}
	for _, up := range d.below {
		if strings.HasPrefix(p, up) {
			return true
		}
	}
	return false
}

// isWhole reports whether a text is a path from its beginning.
func isWhole(text string) bool {
	return strings.HasPrefix(text, "/api/") || strings.HasPrefix(text, "/v1/") || text == "/openapi.json"
}

// add reads the first cell of a row. before are the paths of the cell before, which it may continue; prefix begins the
// paths of the section's table, if they are written without it.
func (d *documented) add(cell, prefix string, offers bool, before []string) (paths []string) {
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		text, shortened := strings.CutSuffix(m[1], "…")
		p := pathOnPage(text)
		switch {
		case shortened || strings.Contains(cell, "and below") && isWhole(p):
			d.below = append(d.below, p)
		case isWhole(p):
			paths = append(paths, p)
			if offers {
				d.offered = append(d.offered, p)
			} else {
				d.withheld = append(d.withheld, p)
			}
		case prefix != "" && strings.HasPrefix(cell, "`/"):
			paths = append(paths, prefix+p)
		case prefix != "" && !strings.HasPrefix(p, "/"):
			paths = append(paths, prefix+"/"+p)
		default:
			from := paths
			if len(from) == 0 {
				from = before
			}
			for _, b := range from { // p may follow it, or stand for its last parts
				paths = append(paths, b+p, path.Dir(b)+p, path.Dir(path.Dir(b))+p)
			}
		}
	}
	for _, p := range paths {
		d.paths[p] = true
	}
	return paths
}

// readPage reads docs/http-api.md.
func readPage(t *testing.T) *documented {
	t.Helper()
	page, err := os.ReadFile("../../docs/http-api.md")
	if err != nil {
		t.Fatal(err)
	}
	d := &documented{paths: map[string]bool{}}
	prefix, before := "", []string(nil)
	for line := range strings.SplitSeq(string(page), "\n") {
		switch {
		case strings.HasPrefix(line, "## "):
			prefix = map[string]string{"## Health checks": "/api/health/checks", "## Messages in queues": "/v1/queues/{}/{}"}[line]
		case strings.HasPrefix(line, "| "):
			cells := strings.Split(line, "|")
			offers := strings.TrimSpace(cells[2]) != "–"
			if cell := strings.TrimSpace(cells[1]); cell != "" {
				before = d.add(cell, prefix, offers, before)
			}
		default:
			for _, m := range quoted.FindAllStringSubmatch(line, -1) {
				if isWhole(m[1]) {
					d.paths[pathOnPage(m[1])] = true
				}
			}
		}
	}
	return d
}

// The page has every path that there is, and each path that it offers is there.
func TestEveryPathIsDocumented(t *testing.T) {
	d, there := readPage(t), map[string]bool{}
	for _, r := range rest.Routes() {
		p := pathOnPage(r.Documented)
		if there[p] = true; !d.takes(p) {
			t.Errorf("docs/http-api.md lacks %s %s", r.Method, r.Documented)
		}
	}
	for _, p := range d.offered {
		if !there[p] {
			t.Errorf("docs/http-api.md has %s, which there is not", p)
		}
	}
	for _, p := range d.withheld {
		if there[p] {
			t.Errorf("docs/http-api.md does not offer %s, which there is", p)
		}
	}
	if len(d.offered) < 90 || len(d.withheld) < 5 {
		t.Errorf("the page has %d paths, and does not offer %d", len(d.offered), len(d.withheld))
	}
}
