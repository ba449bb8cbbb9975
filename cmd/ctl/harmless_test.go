package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/quorate/quorate/client"
)

// Nothing that somebody else has named moves the cursor, clears the screen or sets the title of
// the terminal that it is shown on.
func TestHarmless(t *testing.T) {
	for text, want := range map[string]string{
		"orders":              "orders",
		"größe 日本 \\ \"x\"":   "größe 日本 \\ \"x\"",
		"a\x1b[2Jb":           `a\x1b[2Jb`,
		"\x1b]0;title\x07":    `\x1b]0;title\a`,
		"\u009b31m":           `\u009b31m`,
		"a\u202eb":            `a\u202eb`,
		"\xff\x9b":            `\xff\x9b`,
		"carriage\rreturn":    `carriage\rreturn`,
		"two\nlines and\ttab": "two\nlines and\ttab",
	} {
		if got := harmless(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
	if got := cell("two\nlines and\ttab"); got != `two\nlines and\ttab` {
		t.Errorf("%q", got)
	}
}

func TestShownHarmless(t *testing.T) {
	const bad = "q\x1b[2J\u009b1m"
	s := &session{output: outputTable}
	for what, show := range map[string]func(*bytes.Buffer) error{
		"table": func(b *bytes.Buffer) error { return printRows(b, []string{"name"}, []string{bad}) },
		"line":  func(b *bytes.Buffer) error { printf(b, "%s: %v\n", bad, errors.New(bad)); return nil },
		"deaths": func(b *bytes.Buffer) error {
			return s.printMessage(b, &client.Received{Deaths: []client.Death{{Queue: bad, Reason: bad}}})
		},
		"JSON":      func(b *bytes.Buffer) error { return (&session{output: outputJSON}).encode(b, bad) },
		"JSON line": func(b *bytes.Buffer) error { return (&session{output: outputJSON}).encodeNext(b, bad) },
		"YAML":      func(b *bytes.Buffer) error { return (&session{output: outputYAML}).encode(b, bad) },
	} {
		var b bytes.Buffer
		if err := show(&b); err != nil || b.Len() == 0 || strings.ContainsAny(b.String(), "\x1b\u009b") {
			t.Errorf("%s: %q, %v", what, b.String(), err)
		}
		var back string
		if strings.HasPrefix(what, "JSON") && (json.Unmarshal(b.Bytes(), &back) != nil || back != bad) {
			t.Errorf("%s is not read back: %q", what, back)
		}
	}
}
