package recipes

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// timeout is far above what a recipe takes.
const timeout = 2 * time.Minute

// Every recipe holds on three real nodes; what it says is in the test's log.
func TestRecipes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes: not in short mode")
	}
	cluster := testcluster.Start(t, 3)
	c, err := client.Dial(t.Context(), client.Config{Addresses: cluster.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	t.Run("all", func(t *testing.T) {
		for _, r := range All() {
			t.Run(r.Name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				if err := r.Run(ctx, c, t.Logf); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

// What the guide shows of Go is this package's code, line by line, except for the indent.
func TestGuideShowsTheCode(t *testing.T) {
	text, err := os.ReadFile("../../docs/dead-lettering.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var code [][]string
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		code = append(code, trimmed(string(b)))
	}
	blocks := goBlocks(string(text))
	if len(blocks) < len(All()) {
		t.Errorf("the guide has %d blocks of Go, for %d recipes", len(blocks), len(All()))
	}
	for _, b := range blocks {
		want := trimmed(b)
		if !slices.ContainsFunc(code, func(have []string) bool { return contains(have, want) }) {
			t.Errorf("no file of this package has this part of the guide:\n%s", b)
		}
	}
	for _, r := range All() {
		if !strings.Contains(string(text), r.Title) {
			t.Errorf("the guide has nothing about recipe %s, %q", r.Name, r.Title)
		}
	}
}

// trimmed returns the lines without their indents.
func trimmed(text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// contains reports whether the lines want stand in have, one after the other.
func contains(have, want []string) bool {
	for i := range len(have) - len(want) + 1 {
		if slices.Equal(have[i:i+len(want)], want) {
			return true
		}
	}
	return false
}

// goBlocks returns the fenced blocks of Go.
func goBlocks(text string) (blocks []string) {
	for {
		_, rest, found := strings.Cut(text, "```go\n")
		if !found {
			return blocks
		}
		block, after, closed := strings.Cut(rest, "```")
		if !closed {
			return blocks
		}
		blocks, text = append(blocks, block), after
	}
}
