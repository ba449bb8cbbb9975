package archtest

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// reasonLine is a line "- `module`: reason" of docs/dependencies.md.
var reasonLine = regexp.MustCompile("^- `([^`]+)`[^:]*: .{20,}")

// Every module that the code imports has a line with its reason in
// docs/dependencies.md, and every line there is a module that go.mod requires.
func TestDependencies(t *testing.T) {
	const file = "docs/dependencies.md"
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if m := reasonLine.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			reasons[m[1]] = true
		}
	}
	required, direct := requirements(t)
	for _, m := range direct {
		if !reasons[m] {
			t.Errorf("go.mod requires %s: say in %s why, as a line \"- `%s`: reason\", or do without it", m, file, m)
		}
	}
	for _, s := range load(t) {
		for _, f := range s.files {
			for _, imp := range imports(t, f) {
				m := moduleOf(required, imp)
				if _, is := ours(imp); is || standard(imp) || m != "" && reasons[m] {
					continue
				}
				t.Errorf("%s imports %s of module %q: say in %s why, or do without it", s.place(f.Package), imp, m, file)
			}
		}
	}
	for _, m := range slices.Sorted(maps.Keys(reasons)) {
		if !slices.Contains(required, m) {
			t.Errorf("%s has a line for %s, which go.mod does not require", file, m)
		}
	}
}

// requirements returns the modules that go.mod requires, and those of them that it
// does not mark as indirect.
func requirements(t *testing.T) (all, direct []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		one, isOne := strings.CutPrefix(line, "require ")
		switch {
		case line == "require (":
			inside = true
			continue
		case line == ")":
			inside = false
		case isOne:
			line = one
		}
		fields := strings.Fields(line)
		if !inside && !isOne || len(fields) < 2 {
			continue
		}
		all = append(all, fields[0])
		if !strings.HasSuffix(line, "// indirect") {
			direct = append(direct, fields[0])
		}
	}
	return all, direct
}

// moduleOf returns the required module that holds the package: the longest match.
func moduleOf(required []string, imp string) string {
	best := ""
	for _, m := range required {
		if within(imp, m) && len(m) > len(best) {
			best = m
		}
	}
	return best
}

// Releases that do not work together, or that lose data, stay out: raft-boltdb v2.3.1
// needs a go-metrics that raft v1.8.0 does not build with, older bbolt corrupted files
// when power failed, and tests of raftfsm show what this very raft does.
func TestPinned(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for module, version := range map[string]string{
		"github.com/hashicorp/raft":           `v1\.8\.0`,
		"github.com/hashicorp/raft-boltdb/v2": `v2\.3\.0`,
		"go.etcd.io/bbolt":                    `v1\.(4\.[3-9]|[5-9]\.[0-9]+|[1-9][0-9]+\.[0-9]+)`,
	} {
		if !regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(module) + ` ` + version + `$`).Match(text) {
			t.Errorf("go.mod does not require %s in a version that matches %s, directly", module, version)
		}
	}
}
