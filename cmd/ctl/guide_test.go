package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/internal/transcript"
)

// guideLimit is how long a guide's command may take to say what the guide shows.
const guideLimit = time.Minute

// The commands of the guide about dead letters are run as they stand there, in order; each
// must succeed, and say what the guide shows.
func TestGuideCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes: not in short mode")
	}
	text, err := os.ReadFile("../../docs/dead-lettering.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := transcript.Commands(string(text))
	if len(commands) < 30 {
		t.Fatalf("the guide has %d commands", len(commands))
	}
	c := testcluster.Start(t, 3)
	t.Setenv(addressesEnv, strings.Join(c.Addrs(), ","))
	for _, g := range commands {
		args := guideWords(g.Line)
		if args[0] != "quoratectl" {
			t.Errorf("%s: is not run", g.Line)
			continue
		}
		for deadline := time.Now().Add(guideLimit); ; time.Sleep(20 * time.Millisecond) {
			var out, errs shared
			code := run(t.Context(), append(args[1:], "--timeout", guideLimit.String()), &out, &errs)
			said := out.String() + errs.String()
			missing := g.Missing(said)
			if code == 0 && missing == "" {
				break
			}
			if !looks(args[1:]) || time.Now().After(deadline) {
				t.Fatalf("%s: exit %d, no line like %q in\n%s", g.Line, code, missing, said)
			}
		}
	}
}

// looks reports whether a command changes nothing, so that it may be asked again: what others
// do in the background may take a while.
func looks(args []string) bool {
	return args[0] == "explain" || len(args) > 1 && slices.Contains([]string{"show", "peek", "list", "ls"}, args[1])
}

// guideWords splits a command line as a shell does with single quotes; what follows a # is for
// people.
func guideWords(line string) (words []string) {
	line, _, _ = strings.Cut(line, " #")
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
			continue
		}
		words = append(words, strings.Fields(part)...)
	}
	return words
}
