package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// plant applies the patch to copies of the files that it changes, below dir, and returns the name
// of a file for the flag -overlay of go. The tree stays as it is.
func (m *mutant) plant(ctx context.Context, root, dir string) (overlay string, err error) {
	replace := map[string]string{}
	for _, name := range m.files {
		from, to := filepath.Join(root, name), filepath.Join(dir, name)
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o755)
		}
		if err == nil {
			err = os.WriteFile(to, b, 0o644)
		}
		if err != nil {
			return "", fmt.Errorf("mutant %s: %w", m.name, err)
		}
		replace[from] = to
	}
	apply := exec.CommandContext(ctx, "git", "apply", "--whitespace=nowarn", "-")
	apply.Dir, apply.Stdin = dir, bytes.NewReader(m.patch)
	apply.Env = append(os.Environ(), "GIT_DIR="+filepath.Join(dir, "none")) // dir may be inside of a repository
	if out, err := apply.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mutant %s does not apply any more: plant it anew: %w: %s", m.name, err, bytes.TrimSpace(out))
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, b, 0o644)
}
