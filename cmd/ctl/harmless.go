package main

import (
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-isatty"
)

// harmless escapes what a terminal would interpret, as logs do: names, headers and bodies come from
// anyone who may declare or publish. Line breaks and tabs stay.
func harmless(text string) string { return escaped(text, "\n\t") }

// cell is harmless for a table, where line breaks and tabs would shift the columns.
func cell(text string) string { return escaped(text, "") }

// escaped returns text with everything escaped that could steer a terminal: control characters,
// unprintable runes and bytes that are not UTF-8. Runes in but pass.
func escaped(text, but string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch part := text[i : i+size]; {
		case r == utf8.RuneError && size == 1, !unicode.IsPrint(r) && !strings.ContainsRune(but, r):
			b.WriteString(strings.Trim(strconv.Quote(part), `"`))
		default:
			b.WriteString(part)
		}
		i += size
	}
	return b.String()
}

// jsonC1 escapes the control characters that JSON leaves as they are, because terminals interpret
// some of them. They occur only inside strings.
type jsonC1 struct{ w io.Writer }

// Write never splits a character: an encoder writes whole values.
func (j jsonC1) Write(p []byte) (int, error) {
	if strings.IndexFunc(string(p), isC1) < 0 {
		return j.w.Write(p)
	}
	var b strings.Builder
	for _, r := range string(p) {
		if isC1(r) {
			b.WriteString(`\u00` + strconv.FormatInt(int64(r), 16))
			continue
		}
		b.WriteRune(r)
	}
	if _, err := io.WriteString(j.w, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

func isC1(r rune) bool { return r >= 0x7f && r <= 0x9f }

// isTerminal reports whether the output is a terminal.
func isTerminal(w io.Writer) bool {
	f, is := w.(*os.File)
	return is && isatty.IsTerminal(f.Fd())
}
