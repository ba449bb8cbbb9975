package manual_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/manual"
)

// Each command has a page, and the pages of two builds are equal, in whichever time zone they run.
func TestCommand(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "3600")
	local := time.Local
	t.Cleanup(func() { time.Local = local })
	build := func(hoursEast int) map[string]string {
		time.Local = time.FixedZone("", hoursEast*3600)
		root := &cobra.Command{Use: "program", Short: "Does things"}
		root.AddCommand(&cobra.Command{Use: "sub", Short: "Does one", Run: func(*cobra.Command, []string) {}}, manual.Command())
		dir := filepath.Join(t.TempDir(), "man")
		root.SetArgs([]string{"manual", dir})
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		pages := map[string]string{}
		for _, name := range []string{"program.1", "program-sub.1"} {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			pages[name] = string(b)
		}
		return pages
	}
	one, two := build(14), build(-12)
	for name, page := range one {
		if page != two[name] || !strings.Contains(page, "Jan 1970") || strings.Contains(page, "manual") {
			t.Errorf("%s:\n%s", name, page)
		}
	}
}

func TestWrongEpoch(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	root := &cobra.Command{Use: "program", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(manual.Command())
	root.SetArgs([]string{"manual", t.TempDir()})
	if err := root.Execute(); err == nil || !strings.Contains(err.Error(), `SOURCE_DATE_EPOCH is "yesterday"`) {
		t.Error(err)
	}
}
