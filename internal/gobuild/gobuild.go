// Package gobuild builds the project's programs for tests that run them as processes.
package gobuild

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Program builds the program of a package of the module in root, such as "./cmd/node", with checks of invariants. It uses
// no cgo: with it, as for the race detector, all would be compiled anew. ctx bounds it; on a busy machine it may take
// minutes.
//
// `go test` keeps the result of a test until what the test has looked at changes, and knows nothing of what a program was
// built from. So Program looks at the directories of all sources.
func Program(ctx context.Context, root, pkg, to string) error {
	file, err := filepath.Abs(to)
	if err != nil {
		return fmt.Errorf("build %s: %w", pkg, err)
	}
	if _, err := run(ctx, root, "build", "-tags", "invariants", "-ldflags", "-s -w", "-buildvcs=false", "-o", file, pkg); err != nil {
		return fmt.Errorf("build %s: %w", pkg, err)
	}
	dirs, err := sources(ctx, root, pkg)
	if err != nil {
		return fmt.Errorf("build %s: %w", pkg, err)
	}
	for _, dir := range dirs {
		if _, err := os.ReadDir(dir); err != nil {
			return fmt.Errorf("build %s: %w", pkg, err)
		}
	}
	return nil
}

// sources returns the directories of the module in root that have what a package is built from, and its embedded files.
func sources(ctx context.Context, root, pkg string) ([]string, error) {
	const each = `{{if .Module}}{{if .Module.Main}}{{$dir := .Dir}}{{$dir}}{{range .EmbedFiles}}` + "\n" + `{{$dir}}/{{.}}{{end}}{{end}}{{end}}`
	out, err := run(ctx, root, "list", "-deps", "-tags", "invariants", "-f", each, pkg)
	if err != nil {
		return nil, err
	}
	var dirs []string
	seen := map[string]bool{"": true}
	for line := range strings.Lines(out) {
		dir := strings.TrimSpace(line)
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			dir = filepath.Dir(dir)
		}
		if !seen[dir] {
			seen[dir] = true
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// run runs the go command in a directory, and returns what it prints, or says in the error what it complains about.
func run(ctx context.Context, dir string, args ...string) (string, error) {
	var out, complaint strings.Builder
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), "CGO_ENABLED=0"), &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, complaint.String())
	}
	return out.String(), nil
}
