package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// patches is the directory with the mutants, from the root of the tree on.
const patches = "internal/mutants/testdata"

// kind is a way in which a mutant is looked for.
type kind string

// The kinds, in the order in which they are tried.
const (
	unit  kind = "unit"
	sim   kind = "sim"
	chaos kind = "chaos"
)

func kinds() []kind { return []kind{unit, sim, chaos} }

// mutant is a fault that a patch plants.
type mutant struct {
	name   string
	does   string // what is wrong with it, in one line
	breaks string // the guarantees, by their ids
	how    map[kind]plan
	files  []string // that the patch changes, from the root on
	patch  []byte
}

// plan is how a mutant is looked for in one way.
type plan struct {
	args   []string
	never  string // why that cannot find it; args is empty then
	misses string // why it may go unfound; "": it must not
}

// readMutants reads all patches of the tree, by name.
func readMutants(root string) ([]mutant, error) {
	names, err := filepath.Glob(filepath.Join(root, patches, "*.patch"))
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("%s has no patches: run it from the root of the tree", patches)
	}
	if err != nil {
		return nil, err
	}
	all := make([]mutant, 0, len(names))
	var errs []error
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		m, err := parse(strings.TrimSuffix(filepath.Base(name), ".patch"), b)
		all, errs = append(all, m), append(errs, err)
	}
	return all, errors.Join(errs...)
}

// parse reads the header of a patch, which ends where the first file begins.
func parse(name string, b []byte) (mutant, error) {
	m := mutant{name: name, patch: b, how: map[kind]plan{}}
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%s/%s.patch: %s", patches, name, fmt.Sprintf(format, args...))
	}
	header, _, found := strings.Cut(string(b), "\n--- ")
	if !found {
		return m, wrong(`no line begins with "--- "`)
	}
	for line := range strings.Lines(header) {
		field, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch k := kind(strings.ToLower(field)); {
		case field == "":
		case field == "Does":
			m.does = value
		case field == "Breaks":
			m.breaks = value
		case field == "Misses":
			of, why, _ := strings.Cut(value, ": ")
			p, is := m.how[kind(of)]
			if p.misses = why; !is || why == "" || p.never != "" {
				return m, wrong("%q: want a kind that has a plan above, and why it misses", line)
			}
			m.how[kind(of)] = p
		case slices.Contains(kinds(), k):
			never, is := strings.CutPrefix(value, "never: ")
			if is {
				m.how[k] = plan{never: never}
			} else {
				m.how[k] = plan{args: strings.Fields(value)}
			}
		default:
			return m, wrong("unknown field %q", field)
		}
	}
	if m.does == "" || m.breaks == "" || len(m.how) != len(kinds()) {
		return m, wrong("want the fields Does, Breaks, Unit, Sim and Chaos; has %v", slices.Sorted(maps.Keys(m.how)))
	}
	for line := range strings.Lines(string(b)) {
		if to, is := strings.CutPrefix(line, "+++ b/"); is {
			m.files = append(m.files, strings.TrimSpace(to))
		}
	}
	return m, nil
}
