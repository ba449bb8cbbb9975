package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every method of the API says in the table of TestDenied whom it refuses. That test starts
// a node; this one fails at once.
func TestMethodsAreDenied(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "proto/broker/v1/*.proto"))
	if err != nil || len(files) == 0 {
		t.Fatal("no definitions of the API: ", err)
	}
	table, err := os.ReadFile(filepath.Join(root, "internal/testcluster/denied_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^(?:service|  rpc) (\w+)`)
	methods := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		service := ""
		for _, m := range line.FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(m[0], "service") {
				service = m[1]
				continue
			}
			methods++
			if method := service + "/" + m[1]; !strings.Contains(string(table), `"`+method+`":`) {
				t.Errorf("%s has the method %s: add it to denials() in internal/testcluster/denied_test.go", name, method)
			}
		}
	}
	if methods == 0 {
		t.Error("no method was found")
	}
}
