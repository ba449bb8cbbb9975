package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/testcluster"
)

// guideLimit is how long a guide's command may take to say what the guide shows.
const guideLimit = time.Minute

// guideCommand is a command of a guide, and what it shows of the output.
type guideCommand struct {
	line string
	want []string // "…" stands for anything
}

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
	commands := guideCommands(string(text))
	if len(commands) < 30 {
		t.Fatalf("the guide has %d commands", len(commands))
	}
	c := testcluster.Start(t, 3)
	t.Setenv(addressesEnv, strings.Join(c.Addrs(), ","))
	for _, g := range commands {
		args := guideWords(g.line)
		if args[0] != "quoratectl" {
			t.Errorf("%s: is not run", g.line)
			continue
		}
		for deadline := time.Now().Add(guideLimit); ; time.Sleep(20 * time.Millisecond) {
			var out, errs shared
			code := run(t.Context(), append(args[1:], "--timeout", guideLimit.String()), &out, &errs)
			said := out.String() + errs.String()
			missing := guideMissing(said, g.want)
			if code == 0 && missing == "" {
				break
			}
			if !looks(args[1:]) || time.Now().After(deadline) {
				t.Fatalf("%s: exit %d, no line like %q in\n%s", g.line, code, missing, said)
			}
		}
	}
}

// looks reports whether a command changes nothing, so that it may be asked again: what others
// do in the background may take a while.
func looks(args []string) bool {
	return args[0] == "explain" || len(args) > 1 && slices.Contains([]string{"show", "peek", "list", "ls"}, args[1])
}

// guideCommands returns the commands of the blocks that are marked as console.
func guideCommands(text string) (list []guideCommand) {
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		command, is := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case !inside || line == "":
		case is:
			list = append(list, guideCommand{line: command})
		case strings.HasSuffix(list[len(list)-1].line, "\\"):
			last := &list[len(list)-1]
			last.line = strings.TrimSuffix(last.line, "\\") + strings.TrimSpace(line)
		default:
			last := &list[len(list)-1]
			last.want = append(last.want, line)
		}
	}
	return list
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

// guideMissing returns the first line that is not in the output.
func guideMissing(said string, want []string) string {
	for _, w := range want {
		var pattern []string
		for _, f := range strings.Fields(w) {
			pattern = append(pattern, strings.ReplaceAll(regexp.QuoteMeta(f), "…", ".*"))
		}
		line := regexp.MustCompile(`(?m)^\s*` + strings.Join(pattern, `\s+`) + `\s*$`)
		if !line.MatchString(said) {
			return w
		}
	}
	return ""
}
