package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Every group of commands refuses what it does not know, and says so where errors are read.
func TestUnknownCommand(t *testing.T) {
	groups := 0
	var visit func(*cobra.Command)
	visit = func(group *cobra.Command) {
		if !group.HasSubCommands() {
			return
		}
		groups++
		words := strings.Fields(group.CommandPath())[1:]
		typo := group.Commands()[0].Name() + "x"
		var out, errs bytes.Buffer
		if code := run(t.Context(), append(words, typo), &out, &errs); code != exitUsage || out.Len() > 0 || !strings.Contains(errs.String(), "unknown command") {
			t.Errorf("quoratectl %s %s: %d\n%s%s", strings.Join(words, " "), typo, code, &out, &errs)
		}
		out.Reset()
		if code := run(t.Context(), words, &out, &errs); code != 0 || !strings.Contains(out.String(), "Usage:") {
			t.Errorf("quoratectl %s: %d, want its help\n%s", strings.Join(words, " "), code, &out)
		}
		for _, sub := range group.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
	if groups < 18 {
		t.Errorf("%d groups were looked at", groups)
	}
}

func TestSuggestion(t *testing.T) {
	for line, want := range map[string]string{
		"queue shwo":       `quoratectl: unknown command "shwo" for "quoratectl queue"; did you mean "show"?`,
		"queues shwo":      `quoratectl: unknown command "shwo" for "quoratectl queue"; did you mean "show"?`,
		"help queue shwo":  `quoratectl: unknown command "shwo" for "quoratectl queue"; did you mean "show"?`,
		"quue show":        `quoratectl: unknown command "quue" for "quoratectl"; did you mean "queue"?`,
		"policy p":         `quoratectl: unknown command "p" for "quoratectl policy"; did you mean "put"?`,
		"policy improve":   `quoratectl: unknown command "improve" for "quoratectl policy"; there are "delete", "list", "put"`,
		"completion fisch": `quoratectl: unknown command "fisch" for "quoratectl completion"; did you mean "fish"?`,
	} {
		var errs bytes.Buffer
		if code := run(t.Context(), strings.Fields(line), &bytes.Buffer{}, &errs); code != exitUsage || !strings.HasPrefix(errs.String(), want+"\n") {
			t.Errorf("quoratectl %s: %d, %s, want %s", line, code, &errs, want)
		}
	}
}
