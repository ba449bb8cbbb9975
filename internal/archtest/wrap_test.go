package archtest

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// docWidth is the width of Markdown prose, in characters.
const docWidth = 120

var (
	// listItem matches the marker of a list's item and captures what lies before its text.
	listItem = regexp.MustCompile(`^(\s*(?:[-*+]|\d+[.)])\s+)(.*)$`)
	// marker matches a word that would begin a block if it came first in a line.
	marker = regexp.MustCompile(`^(?:[-*+#>|=]|#+|\d+[.)]|[-=]{2,})$|^[|>]`)
)

// Prose in Markdown is wrapped at docWidth, so that a change of a word is a change of few lines. Tables,
// headings, code and HTML stay as they are. -rewrite wraps it.
func TestMarkdownIsWrapped(t *testing.T) {
	walkMarkdown(t, func(file, is string) {
		want := wrapMarkdown(is)
		if is == want {
			return
		}
		if *rewrite {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		t.Errorf("%s: prose is not wrapped at %d characters (go test ./internal/archtest -args -rewrite); first at %q",
			strings.TrimPrefix(file, root+"/"), docWidth, firstDifference(is, want))
	})
}

func TestWrapMarkdown(t *testing.T) {
	long := strings.Repeat("word ", 30)
	for _, c := range []struct{ name, in, want string }{
		{"joins short lines", "a\nb\n\nc\n", "a b\n\nc\n"},
		{"wraps long ones", long + "\n", strings.TrimSpace(strings.Repeat("word ", 24)) + "\n" + strings.TrimSpace(strings.Repeat("word ", 6)) + "\n"},
		{"indents items", "- a\n  b\n- c\n", "- a b\n- c\n"},
		{"keeps nested items", "- a\n  - b\n    c\n", "- a\n  - b c\n"},
		{"keeps a paragraph of an item", "- a\n\n  b\n  c\n", "- a\n\n  b c\n"},
		{"keeps code", "```\na\nb\n```\n", "```\na\nb\n```\n"},
		{"keeps code in items", "- a\n\n  ```\n  a\n  b\n  ```\n", "- a\n\n  ```\n  a\n  b\n  ```\n"},
		{"keeps tables and headings", "# a\nb\n| a |\n|---|\n", "# a\nb\n| a |\n|---|\n"},
		{"keeps hard breaks", "a\\\nb\n", "a\\\nb\n"},
		{"keeps code spans whole", strings.Repeat("x", 115) + " `a b c`\n", strings.Repeat("x", 115) + "\n`a b c`\n"},
		{"begins no line with a marker", strings.Repeat("x", 117) + " a - b\n", strings.Repeat("x", 117) + "\na - b\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := wrapMarkdown(c.in); got != c.want {
				t.Errorf("is\n%q, want\n%q", got, c.want)
			}
			if got := wrapMarkdown(c.want); got != c.want {
				t.Errorf("wrapped again it is\n%q, want\n%q", got, c.want)
			}
		})
	}
}

// wrapMarkdown wraps the paragraphs of a document.
func wrapMarkdown(text string) string {
	var out strings.Builder
	var head, indent string // what begins the paragraph's first line, and the others
	var lines []string      // of the paragraph
	end := func() {
		fill(&out, head, indent, wordsOf(strings.Join(lines, " ")))
		head, indent, lines = "", "", nil
	}
	fenced := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			fenced = !fenced
			fallthrough
		case fenced, trimmed == "", strings.HasPrefix(trimmed, "|"), strings.HasPrefix(trimmed, "#"),
			strings.HasPrefix(trimmed, "<"), strings.HasPrefix(trimmed, ">"),
			len(lines) == 0 && strings.HasPrefix(line, "    ") && !listItem.MatchString(line):
			end()
			out.WriteString(line + "\n")
			continue
		}
		if m := listItem.FindStringSubmatch(line); m != nil {
			end()
			head, indent = m[1], strings.Repeat(" ", utf8.RuneCountInString(m[1]))
			line = m[2]
		} else if len(lines) == 0 {
			head = line[:len(line)-len(strings.TrimLeft(line, " "))]
			indent = head
		}
		lines = append(lines, line)
		if strings.HasSuffix(line, "\\") || strings.HasSuffix(line, "  ") {
			next := indent
			end()
			head, indent = next, next
		}
	}
	end()
	return out.String()
}

// wordsOf parts a paragraph at its spaces, except those within a code span.
func wordsOf(text string) []string {
	if strings.Count(text, "`")%2 == 1 {
		return strings.Fields(text)
	}
	var words []string
	within := false
	for _, f := range strings.Fields(text) {
		if within {
			words[len(words)-1] += " " + f
		} else {
			words = append(words, f)
		}
		if strings.Count(f, "`")%2 == 1 {
			within = !within
		}
	}
	return words
}

// fill writes a paragraph.
func fill(out *strings.Builder, head, indent string, words []string) {
	if len(words) == 0 {
		return
	}
	line := head + words[0]
	for i, w := range words[1:] {
		after := w
		if i+2 < len(words) && marker.MatchString(words[i+2]) {
			after += " " + words[i+2] // which must not begin a line
		}
		if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(after) > docWidth && !marker.MatchString(w) {
			out.WriteString(line + "\n")
			line = indent + w
			continue
		}
		line += " " + w
	}
	out.WriteString(line + "\n")
}

// firstDifference returns the first line of is that want does not have in its place.
func firstDifference(is, want string) string {
	w := strings.Split(want, "\n")
	for i, line := range strings.Split(is, "\n") {
		if i >= len(w) || w[i] != line {
			return line
		}
	}
	return "its end"
}
