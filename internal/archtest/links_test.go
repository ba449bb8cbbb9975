package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// link matches a Markdown link and captures its target without the fragment.
var link = regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)\s]*)?\)`)

// Every relative link of a document leads to a file that is there.
func TestLinks(t *testing.T) {
	walkMarkdown(t, func(file, text string) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
				t.Errorf("%s: link to %s leads nowhere", strings.TrimPrefix(file, root+"/"), m[1])
			}
		}
	})
}
