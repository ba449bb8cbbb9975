package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/quorate/quorate/client"
)

// parseValue reads a number or a boolean; text in double quotes is always a string.
func parseValue(s string) any {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	if b, err := strconv.ParseBool(s); err == nil && (s == "true" || s == "false") {
		return b
	}
	if quoted, err := strconv.Unquote(s); err == nil && strings.HasPrefix(s, `"`) {
		return quoted
	}
	return s
}

// printRows writes a table.
func printRows(w io.Writer, header []string, rows ...[]string) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	printf(t, "%s\n", strings.ToUpper(strings.Join(header, "\t")))
	for _, r := range rows {
		cells := make([]string, len(r))
		for i, text := range r {
			cells[i] = cell(text)
		}
		printf(t, "%s\n", strings.Join(cells, "\t"))
	}
	return t.Flush()
}

// collectAnswered gathers a listing, and reports for each node that did not answer what is missing.
func collectAnswered[T any](cmd *cobra.Command, listing iter.Seq2[T, error], missing string) ([]T, error) {
	all, err := client.Collect(listing)
	var silent *client.SilentNodesError
	if errors.As(err, &silent) {
		err = nil
		for _, n := range silent.Nodes {
			printf(cmd.ErrOrStderr(), "node %s does not answer: %s\n", n, missing)
		}
	}
	return all, err
}

// printList writes a table with a row for each, or all of them as a list.
func printList[T any](s *session, w io.Writer, header []string, all []T, row func(T) []string) error {
	if s.output != outputTable {
		return s.encode(w, plainAll(all))
	}
	rows := make([][]string, len(all))
	for i, x := range all {
		rows[i] = row(x)
	}
	return printRows(w, header, rows...)
}

// printOne writes a table with one row, or the struct as an object.
func (s *session) printOne(w io.Writer, header, row []string, m any) error {
	if s.output != outputTable {
		return s.encode(w, plain(m))
	}
	return printRows(w, header, row)
}

// printWord writes a word and its value, or an object of both.
func (s *session) printWord(w io.Writer, word string, is any) error {
	if s.output != outputTable {
		return s.encode(w, map[string]any{word: is})
	}
	printf(w, "%s %v\n", word, is)
	return nil
}

// encode writes the whole output of a command as JSON or YAML.
func (s *session) encode(w io.Writer, v any) error {
	if s.output == outputYAML {
		return encodeYAML(w, v)
	}
	e := json.NewEncoder(jsonC1{w})
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// encodeNext writes one item of continuous output, as a line of JSON or a YAML document.
func (s *session) encodeNext(w io.Writer, v any) error {
	if s.output == outputYAML {
		printf(w, "---\n")
		return encodeYAML(w, v)
	}
	e := json.NewEncoder(jsonC1{w})
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// encodeYAML writes one YAML document with the indent that the documentation shows.
func encodeYAML(w io.Writer, v any) error {
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	return errors.Join(e.Encode(v), e.Close())
}

// printf writes output, with texts among the arguments made harmless to a terminal. A reader that
// has gone away is no failure of the command.
func printf(w io.Writer, format string, args ...any) {
	for i, a := range args {
		switch a := a.(type) {
		case string:
			args[i] = harmless(a)
		case error:
			args[i] = harmless(a.Error())
		}
	}
	_, _ = fmt.Fprintf(w, format, args...)
}
