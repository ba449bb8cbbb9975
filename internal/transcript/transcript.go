// Package transcript reads the console sessions that a Markdown page shows, so that tests can run
// them: what a page promises is then what the programs do.
package transcript

import (
	"regexp"
	"strings"
)

// Command is a command of a page, and what the page shows of its output.
type Command struct {
	Where string   // what follows the word console in the opening line of the block
	Line  string   // without the prompt; a line that ends with a backslash is joined with the next
	Want  []string // lines of the output; "…" stands for anything
}

// Commands returns the commands of the blocks that are marked as console, in order.
func Commands(page string) []Command {
	var list []Command
	inside, where := false, ""
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line) // a block of a list is indented
		command, prompted := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			where, inside = strings.CutPrefix(line, "```console")
			where = strings.TrimSpace(where)
		case !inside || line == "":
		case prompted:
			list = append(list, Command{Where: where, Line: command})
		case strings.HasSuffix(list[len(list)-1].Line, "\\"):
			last := &list[len(list)-1]
			last.Line = strings.TrimSuffix(last.Line, "\\") + strings.TrimSpace(line)
		default:
			last := &list[len(list)-1]
			last.Want = append(last.Want, line)
		}
	}
	return list
}

// Missing returns the first wanted line that is not in the output; empty: all are there. White
// space counts as one blank.
func (c Command) Missing(output string) string {
	for _, w := range c.Want {
		var pattern []string
		for _, f := range strings.Fields(w) {
			pattern = append(pattern, strings.ReplaceAll(regexp.QuoteMeta(f), "…", ".*"))
		}
		line := regexp.MustCompile(`(?m)^\s*` + strings.Join(pattern, `\s+`) + `\s*$`)
		if !line.MatchString(output) {
			return w
		}
	}
	return ""
}
