package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What .ci/run calls, for TestEndOfCheck: the tests, the step image and the generator fail, each in its way.
const (
	fakeMakeProgram = `#!/bin/sh
case "$*" in
  *test-targets) echo one two ;;
  image*)
    for i in $(seq 100); do echo "image line $i"; done
    echo 'failed: no room'
    printf '%09000d\n' 1
    exit 1 ;;
  gen) echo changed >proto/p.proto ;;
  *) echo "$1: ok" ;;
esac
`
	fakeGoProgram = `#!/bin/sh
case "$*" in
  *'-name test '*)
    echo 'failed: pkg.TestA'
    echo '    a_test.go:3: too late'
    printf 'figures 5 2 0 0\nfailed pkg.TestA\nfailed pkg.TestB\n' >dist/ci/test.result
    exit 1 ;;
  *'-name race '*) echo 'figures 5 0 0 0' >dist/ci/race.result ;;
esac
`
	fakeGitProgram = `#!/bin/sh
case "$*" in *--stat*) echo ' proto/p.proto | 2 +-' ;; esac
exit 1
`
)

// The end of .ci/run says of each failed step why, however much the steps after it said.
func TestEndOfCheck(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not here")
	}
	script, err := os.ReadFile("../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := map[string]string{
		".ci/run": string(script), "proto/p.proto": "", "amqp/wire/methods.go": "",
		"fake/make": fakeMakeProgram, "fake/go": fakeGoProgram, "fake/git": fakeGitProgram,
	}
	for _, there := range []string{"apt-get", "dpkg", "ip", "shellcheck"} { // nothing is installed
		files["fake/"+there] = "#!/bin/sh\n"
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(files[name]), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", ".ci/run")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), fmt.Sprintf("PATH=%s:%s", filepath.Join(dir, "fake"), os.Getenv("PATH")))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	_, end, _ := strings.Cut(string(out), "== the end of ")
	for _, want := range []string{
		"test, which failed; all of it: dist/ci/test.log\nfailed: pkg.TestA\n    a_test.go:3: too late\n",
		"the end of gen-is-committed,", "generated code changed", " proto/p.proto | 2 +-\n",
		"the end of image,", "image line 100\nfailed: no room\n0000",
		"\nfailed: test: pkg.TestA\nfailed: test: pkg.TestB\nfailed: gen-is-committed\nfailed: image\n",
	} {
		if !strings.Contains(end, want) {
			t.Errorf("the end lacks %q", want)
		}
	}
	lines := strings.Split(end, "\n")
	longest := len(slices.MaxFunc(lines, func(a, b string) int { return len(a) - len(b) }))
	if len(lines) > 60 || longest > 5000 || strings.Count(end, "too late") != 1 {
		t.Errorf("the end has %d lines, one of %d bytes", len(lines), longest)
	}
	if !regexp.MustCompile(`\n[0-9]+ passed, 4 failed, [0-9]+ skipped\n$`).MatchString(end) {
		t.Error("it does not end with the count")
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}
