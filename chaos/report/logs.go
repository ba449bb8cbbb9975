package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

const (
	// around is how long before and after a finding log lines are shown.
	around = 2 * time.Second
	// maxExcerpts bounds the findings with log lines, and of each guarantee.
	maxExcerpts, maxExcerptsEach = 12, 3
	maxLines                     = 60  // of an excerpt
	maxLineBytes                 = 400 // of a line
)

// AddLogs adds what nodes logged around findings. logs are those of the nodes by id, in the forms text
// and json; lines whose time cannot be read are left out. Nodes whose wall clock was stepped are
// looked at by that clock.
func (r *Report) AddLogs(logs map[string][]byte) {
	lines := map[string][]Line{}
	for node, log := range logs {
		for line := range bytes.Lines(log) {
			if at, ok := timeOf(line); ok {
				lines[node] = append(lines[node], Line{node, at.Sub(r.Settings.At), cutLine(line)})
			}
		}
	}
	for _, g := range r.Guarantees {
		for _, f := range g.Broken[:min(len(g.Broken), maxExcerptsEach)] {
			if len(r.Logs) == maxExcerpts {
				return
			}
			x := Excerpt{At: f.At, Guarantee: g.Name, Why: f.Why}
			for _, all := range lines {
				for _, l := range all {
					if l.At >= f.At-around && l.At <= f.At+around {
						x.Lines = append(x.Lines, l)
					}
				}
			}
			slices.SortStableFunc(x.Lines, func(a, b Line) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Node, b.Node)) })
			x.Cut = max(0, len(x.Lines)-maxLines)
			x.Lines = x.Lines[:len(x.Lines)-x.Cut]
			r.Logs = append(r.Logs, x)
		}
	}
}

// cutLine shortens what nobody reads to its end.
func cutLine(line []byte) string {
	s := strings.ToValidUTF8(strings.TrimRight(string(line), "\r\n"), "?")
	if len(s) > maxLineBytes {
		s = strings.ToValidUTF8(s[:maxLineBytes], "") + "…"
	}
	return s
}

// timeOf reads the time of a line of log/slog's forms.
func timeOf(line []byte) (time.Time, bool) {
	text := ""
	if rest, is := bytes.CutPrefix(line, []byte("time=")); is {
		word, _, _ := bytes.Cut(rest, []byte(" "))
		text = string(word)
	} else if bytes.HasPrefix(line, []byte("{")) {
		var l struct{ Time string }
		if json.Unmarshal(line, &l) == nil {
			text = l.Time
		}
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	return at, err == nil
}
