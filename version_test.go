package quorate

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"testing"
)

// semantic is the expression that semver.org suggests, with groups for number and metadata alone.
var semantic = regexp.MustCompile(`^((?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?)(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?$`)

func TestVersionIsSemantic(t *testing.T) {
	for _, c := range []string{"", "7b14c6e", "7b14c6e-dirty"} {
		commit = c
		if parts := semantic.FindStringSubmatch(Version()); parts == nil || parts[2] != c {
			t.Errorf("with commit %q the version is %q: %q", c, Version(), parts)
		}
	}
	commit = ""
}

func TestNotedCommit(t *testing.T) {
	hash := debug.BuildSetting{Key: "vcs.revision", Value: "7b14c6e0123456789"}
	for _, row := range []struct {
		settings []debug.BuildSetting
		want     string
	}{
		{nil, ""},
		{[]debug.BuildSetting{{Key: "vcs.modified", Value: "true"}}, ""},
		{[]debug.BuildSetting{hash, {Key: "vcs.modified", Value: "false"}}, "7b14c6e"},
		{[]debug.BuildSetting{hash, {Key: "vcs.modified", Value: "true"}}, "7b14c6e-dirty"},
	} {
		if got := noted(row.settings); got != row.want {
			t.Errorf("%v: %q, want %q", row.settings, got, row.want)
		}
	}
}

// Every program prints its version, by the linker's flag that the Makefile gives.
func TestPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs: not in short mode")
	}
	dir := t.TempDir()
	for name, pkg := range map[string]string{
		"quorate": "./cmd/node", "quoratectl": "./cmd/ctl", "waldump": "./cmd/waldump",
	} {
		file := filepath.Join(dir, name)
		build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w -X github.com/quorate/quorate.commit=0123abc", "-o", file, pkg)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", build, err, out)
		}
		out, err := exec.CommandContext(t.Context(), file, "--version").CombinedOutput()
		want := name + " 0.9.0+0123abc (commit 0123abc, " + runtime.Version() + ")\n"
		if err != nil || string(out) != want {
			t.Errorf("%s --version: %v: %q, want %q", name, err, out, want)
		}
	}
}
