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
	for want, of := range map[string]source{"set all of them": {version: "1"}, "uncommitted changes": {version: "1+c-dirty", commit: "c"}} {
		if err := release(dir, of, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", of, err, want)
		}
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
	for range 2 { // again, over what is there
		if err := release(dir, source{"1+c-dirty", "c", "-f"}, true); err != nil {
			t.Fatal(err)
		}
		list, err := os.ReadFile(filepath.Join(dir, sumsFile))
		if err != nil || strings.Count(string(list), "\n") != 3 || !strings.Contains(string(list), "  "+provenanceFile+"\n") {
			t.Errorf("%s, %v", list, err)
		}
	}
}

func TestStatement(t *testing.T) {
	one := binary{file: file{"quorate-linux-amd64", "aa"}, goVersion: "go1.26.0", path: "x/cmd/node", settings: []setting{{"CGO_ENABLED", "0"}}}
	two := one
	two.name, two.sum = "quoratectl-linux-amd64", "bb"
	text, err := statement([]binary{one, two}, &source{"1.0.0", "c0ffee", "-trimpath"})
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
	if text, _ = statement([]binary{one, two}, &source{version: "1-dirty"}); !strings.Contains(string(text), `"modified": "true"`) {
		t.Error("uncommitted changes are not reported")
	}
	two.goVersion = "go1"
	for _, bad := range [][]binary{nil, {one, two}} {
		if _, err := statement(bad, &source{version: "1"}); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
}
