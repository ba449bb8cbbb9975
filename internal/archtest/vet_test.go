package archtest

import (
	"regexp"
	"strings"
	"testing"
)

// .ci/run leaves go vet to golangci-lint, which has its analyzers while nothing in the configuration takes one away. It
// looks at every module whose target leaves vet out then.
func TestLintVets(t *testing.T) {
	config := readDocument(t, ".golangci.yml")
	if !strings.Contains(config, "\n    - govet\n") || regexp.MustCompile(`govet\b.*:|linters: \[.*govet`).MatchString(config) {
		t.Error(".golangci.yml does not run all of govet")
	}
	if !strings.Contains(readDocument(t, ".ci/run"), " make lint\n") {
		t.Error(".ci/run does not lint")
	}
	makefile := readDocument(t, "Makefile")
	vetted := regexp.MustCompile(`(?m)^\tcd (\S+) &&.* \$\(VET\) `).FindAllStringSubmatch(makefile, -1)
	if len(vetted) == 0 {
		t.Error("the Makefile has no target with $(VET)")
	}
	for _, m := range vetted {
		if !strings.Contains(makefile, "\tcd "+m[1]+" && $(BIN)/golangci-lint run ") {
			t.Errorf("make lint leaves out the module %s", m[1])
		}
	}
}
