package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// With returns the scenario with the answers that a client got: as the common answers or, if how is
// "differences", as the broker's where they differ. The rule that explains a difference must be
// added by hand.
func (s Scenario) With(how, broker string, r Result) Scenario {
	s.Steps = slices.Clone(s.Steps)
	for i, got := range r.Answers {
		step := &s.Steps[i]
		switch {
		case how == "answers":
			step.Want = got
		case !slices.Equal(got, step.Want):
			step.Otherwise = slices.DeleteFunc(slices.Clone(step.Otherwise), func(d Difference) bool { return d.Who == broker })
			step.Otherwise = append(step.Otherwise, Difference{Who: broker, Rule: "WHY-0", Why: "?", Want: got})
		}
	}
	return s
}

// Save writes scenarios over those with the same names in a directory's files. The text between
// scenarios stays.
func Save(dir string, all []Scenario) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return err
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if err := os.WriteFile(f, []byte(rewritten(string(text), all)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// rewritten writes answers behind the commands of a file.
func rewritten(text string, all []Scenario) string {
	var out []string
	var s *Scenario
	step := 0
	for _, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "==="):
			name := headLine.FindStringSubmatch(line)[1]
			i := slices.IndexFunc(all, func(x Scenario) bool { return x.Name == name })
			if s, step = nil, 0; i >= 0 {
				s = &all[i]
			}
		case s == nil || line == "" || line[0] == '#':
		case strings.HasPrefix(line, "> "):
			out = append(append(out, line), s.Steps[step].text()...)
			step++
			continue
		default:
			continue // an answer
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// text returns a step's answers as script text.
func (s *Step) text() []string {
	out := slices.Clone(s.Want)
	for _, d := range s.Otherwise {
		out = append(append(out, "! "+d.Who+" "+d.Rule+": "+d.Why), d.Want...)
	}
	return out
}
