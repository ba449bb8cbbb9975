package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// The rules find what they are meant to find.
func TestRulesBite(t *testing.T) {
	for _, tt := range []struct{ code, want string }{
		{"import \"time\"\nvar now = time.Now()", "uses time.Now"},
		{"import clock \"time\"\nvar now = clock.Now()", "uses time.Now"},
		{"import \"time\"\nvar t *time.Timer", "uses time.Timer"},
		{"import \"time\"\nvar d = 3 * time.Second", ""},
		{"func f() { go f() }", "starts a goroutine"},
		{"var c = make(chan int)", "uses a channel"},
		{"func f() { select {} }", "uses a channel"},
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+tt.code, 0)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		ast.Inspect(f, func(n ast.Node) bool {
			if fault := impure(n, timeName(f)); fault != "" {
				got = fault
			}
			return true
		})
		if got != tt.want {
			t.Errorf("%s: fault = %q, want %q", strings.ReplaceAll(tt.code, "\n", "; "), got, tt.want)
		}
	}

	row := Package{Path: "x/...", Pure: true, Imports: []string{"id"}, ThirdParty: []string{"raft"}}
	for imp, want := range map[string]bool{
		module + "/id":                    true,
		module + "/x/y":                   true,
		module + "/ids":                   false,
		module + "/broker":                false,
		"fmt":                             true,
		"os":                              false,
		"math/rand/v2":                    false,
		"github.com/hashicorp/raft":       true,
		"github.com/hashicorp/raft/fuzzy": true,
		"github.com/hashicorp/raft-wal":   false,
		"google.golang.org/grpc":          false,
	} {
		if got := allowed(row, Modules(), imp); got != want {
			t.Errorf("allowed(%s) = %v, want %v", imp, got, want)
		}
	}
}
