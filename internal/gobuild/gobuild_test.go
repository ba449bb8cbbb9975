package gobuild

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// module writes a module with two programs into a directory of its own. One has a package and an embedded file; its test
// builds it.
func module(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":             "module example\n\ngo 1.24\n",
		"main/main.go":       "package main\n\nimport (\n\t_ \"embed\"\n\n\t\"example/part\"\n)\n\n//go:embed page/text\nvar text string\n\nfunc main() { print(part.Name, text) }\n",
		"main/page/text":     "text",
		"part/part.go":       "package part\n\nconst Name = \"part\"\n",
		"unused/unused.go":   "package unused\n",
		"faulty/main.go":     "package main\n\nfunc main() { missing() }\n",
		"main/page/more.txt": "",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// A program is built with what it is built from, or the error says why not.
func TestProgram(t *testing.T) {
	root, to := module(t), filepath.Join(t.TempDir(), "program")
	if err := Program(t.Context(), root, "./main", to); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(to); err != nil || info.Mode()&0o100 == 0 {
		t.Fatal(info, err)
	}
	if err := Program(t.Context(), root, "./faulty", to); err == nil || !strings.Contains(err.Error(), "undefined: missing") {
		t.Errorf("a program with a fault: %v", err)
	}
	if err := Program(t.Context(), root, "./none", to); err == nil || !strings.Contains(err.Error(), "./none") {
		t.Errorf("a program that is not there: %v", err)
	}
}

// What a program is built from are its own package, those of the module that it imports, and what is embedded.
func TestSources(t *testing.T) {
	root := module(t)
	got, err := sources(t.Context(), root, "./main")
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if got[i], err = filepath.Rel(root, got[i]); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(got)
	if want := []string{"main", "main/page", "part"}; !slices.Equal(got, want) {
		t.Errorf("sources are %q, want %q", got, want)
	}
}
