package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A program of Go says of which module and by which Go it is, and its sum is in both files.
func TestRelease(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"program": text, "program.cdx.json": []byte("{}\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// A test's program has no commit: that is told.
	if err := release(dir, "1", "", true); err == nil || !strings.Contains(err.Error(), "does not tell its commit") {
		t.Fatal(err)
	}
	files, err := filesOf(dir)
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	b, is, err := readBinary(self, files[0])
	if err != nil || !is || !strings.HasPrefix(b.goVersion, "go1.") || !strings.Contains(b.path, "deploy/release") {
		t.Fatal(b, is, err)
	}
	if _, is, err := readBinary(filepath.Join(dir, "program.cdx.json"), files[1]); is || err != nil {
		t.Error(is, err)
	}
	if _, _, err := readBinary(filepath.Join(dir, "program.cdx.json"), file{name: "other"}); err == nil {
		t.Error("what is no program is taken for one")
	}
	if want := files[0].sum + "  program\n" + files[1].sum + "  program.cdx.json\n"; string(sums(files)) != want {
		t.Errorf("%s, want %s", sums(files), want)
	}
}

func TestStatement(t *testing.T) {
	one := binary{file: file{"quorate-linux-amd64", "aa"}, goVersion: "go1.26.0", path: "x/cmd/node", commit: "c0ffee", settings: []setting{{"CGO_ENABLED", "0"}}}
	two := one
	two.name, two.sum = "quoratectl-linux-amd64", "bb"
	text, err := statement([]binary{one, two}, "1.0.0", "-trimpath")
	if err != nil {
		t.Fatal(err)
	}
	var s inTotoStatement
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	d := s.Predicate.BuildDefinition
	if len(s.Subject) != 2 || s.Subject[1].Digest["sha256"] != "bb" || d.ResolvedDependencies[0].Digest["gitCommit"] != "c0ffee" ||
		d.ExternalParameters["flags"] != "-trimpath" || d.ExternalParameters["modified"] != "" || !strings.Contains(string(text), `"CGO_ENABLED": "0"`) {
		t.Errorf("%s", text)
	}
	two.modified = true
	if text, _ = statement([]binary{one, two}, "1", ""); !strings.Contains(string(text), `"modified": "true"`) {
		t.Error("changes that are not committed are not told")
	}
	two.commit = "other"
	for _, bad := range [][]binary{nil, {one, two}, {{file: one.file, goVersion: "go1"}}} {
		if _, err := statement(bad, "1", ""); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
}
