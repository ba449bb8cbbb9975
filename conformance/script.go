package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Scenario is a script: steps that run one after the other, each with its answer.
type Scenario struct {
	Name  string
	Rules []string // ids of docs/semantics.md and docs/compatibility.md
	Title string
	Steps []Step
}

// Step is a command and its expected answer.
type Step struct {
	Line string // as written in the script
	Do   string
	Args map[string]any
	Want []string
	// Otherwise has the answers that differ, by the name of a broker, a client, or both with a slash
	// between them.
	Otherwise []Difference
}

// Difference is a known difference.
type Difference struct {
	Who, Rule, Why string
	Want           []string
}

// want returns the expected answer of this client and broker, and the difference if it is a known
// one.
func (s *Step) want(broker, client string) ([]string, *Difference) {
	for _, who := range []string{broker + "/" + client, client, broker} {
		for i := range s.Otherwise {
			if d := &s.Otherwise[i]; d.Who == who {
				return d.Want, d
			}
		}
	}
	return s.Want, nil
}

var (
	headLine       = regexp.MustCompile(`^=== ([a-z0-9-]+) \[([A-Z0-9-]+(?:, [A-Z0-9-]+)*)\] (.+)$`)
	differenceLine = regexp.MustCompile(`^! ([a-z0-9/-]+) ([A-Z]+-[0-9]+): (.+)$`)
)

// ParseScenarios reads a file of scenarios:
//
//	=== name [RULE-1, RULE-2] what it shows
//	> command argument=value flag
//	what it answers
//	! broker RULE-3: why it differs there
//	what it answers there
//
// A value is a word or JSON. $ in it stands for the prefix of the scenario's names, and the word
// @reply for the reply_to of the last message that had one. Lines that begin with # are comments.
func ParseScenarios(text string) ([]Scenario, error) {
	var all []Scenario
	var errs []error
	var answer *[]string // target of lines that are not commands
	for i, line := range strings.Split(text, "\n") {
		fault := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("line %d: %s", i+1, fmt.Sprintf(format, args...)))
		}
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "==="):
			m := headLine.FindStringSubmatch(line)
			if m == nil {
				fault("%q: want === name [RULE-1, RULE-2] title", line)
				continue
			}
			all, answer = append(all, Scenario{Name: m[1], Rules: strings.Split(m[2], ", "), Title: m[3]}), nil
		case len(all) == 0:
			fault("%q is outside a scenario", line)
		case strings.HasPrefix(line, "> "):
			s := &all[len(all)-1]
			do, args, err := parseCommand(line[2:])
			if err != nil {
				fault("%v", err)
			}
			s.Steps = append(s.Steps, Step{Line: line[2:], Do: do, Args: args})
			answer = &s.Steps[len(s.Steps)-1].Want
		case answer == nil:
			fault("%q is an answer without a command", line)
		case strings.HasPrefix(line, "! "):
			m := differenceLine.FindStringSubmatch(line)
			if m == nil {
				fault("%q: want ! who RULE-1: why", line)
				continue
			}
			steps := all[len(all)-1].Steps
			s := &steps[len(steps)-1]
			s.Otherwise = append(s.Otherwise, Difference{Who: m[1], Rule: m[2], Why: m[3]})
			answer = &s.Otherwise[len(s.Otherwise)-1].Want
		default:
			*answer = append(*answer, line)
		}
	}
	return all, errors.Join(errs...)
}

// parseCommand splits "do key=value flag".
func parseCommand(line string) (do string, args map[string]any, err error) {
	do, rest, _ := strings.Cut(line, " ")
	args = map[string]any{}
	for rest = strings.TrimLeft(rest, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		end := strings.IndexAny(rest, "= ")
		if end < 0 {
			end = len(rest)
		}
		name := rest[:end]
		if rest = rest[end:]; !strings.HasPrefix(rest, "=") {
			args[name] = true
			continue
		}
		if args[name], rest, err = parseValue(rest[1:]); err != nil {
			return "", nil, fmt.Errorf("%s of %q: %w", name, line, err)
		}
	}
	return do, args, nil
}

// parseValue parses JSON, or else a word, at the beginning of a text.
func parseValue(text string) (v any, rest string, err error) {
	if text != "" && strings.ContainsRune(`{["`, rune(text[0])) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			return nil, "", err
		}
		return v, text[d.InputOffset():], nil
	}
	word, rest, _ := strings.Cut(text, " ")
	d := json.NewDecoder(strings.NewReader(word))
	d.UseNumber()
	if d.Decode(&v) == nil && int(d.InputOffset()) == len(word) {
		return v, rest, nil
	}
	return word, rest, nil
}

// Load reads all scenarios of a directory, which must have different names.
func Load(dir string) ([]Scenario, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no scenarios in %s: %w", dir, err)
	}
	slices.Sort(files)
	var all []Scenario
	var errs []error
	names := map[string]bool{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		some, err := ParseScenarios(string(text))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f, err))
		}
		for _, s := range some {
			if names[s.Name] {
				errs = append(errs, fmt.Errorf("%s: scenario %s exists twice", f, s.Name))
			}
			names[s.Name] = true
		}
		all = append(all, some...)
	}
	return all, errors.Join(errs...)
}

// sleeps reports whether the scenario waits for time to pass, so that it is slow on any machine.
func (s *Scenario) sleeps() bool {
	return slices.ContainsFunc(s.Steps, func(step Step) bool { return step.Do == "sleep" })
}
