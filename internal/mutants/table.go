package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// document has the table of what found which mutant. What follows mark in it is written by this program, and read by
// it too, so that a run may look for some.
const (
	document = "docs/mutants.md"
	mark     = "<!-- make mutants ARGS=-write writes what follows. -->\n"
)

// table has a cell for each mutant and way: what found it.
type table map[string]map[kind]string

// set sets a cell.
func (t table) set(name string, k kind, cell string) {
	if t[name] == nil {
		t[name] = map[kind]string{}
	}
	t[name][k] = cell
}

// unknown is the cell of what was not looked for yet.
const unknown = "?"

// readTable reads the cells of the document.
func readTable(root string) (table, error) {
	b, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		return nil, err
	}
	_, written, found := strings.Cut(string(b), mark)
	if !found {
		return nil, fmt.Errorf("%s lacks the line %q", document, mark)
	}
	t := table{}
	for line := range strings.Lines(written) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if name := strings.Trim(strings.TrimSpace(cells[0]), "`"); len(cells) == 3+len(kinds()) && name != "Mutant" {
			for i, k := range kinds() {
				t.set(name, k, strings.TrimSpace(cells[3+i]))
			}
		}
	}
	return t, nil
}

// write puts the cells into the document, and takes those that it has besides. Rows are those of
// the mutants that there are.
func (t table) write(root string, all []mutant) error {
	name := filepath.Join(root, document)
	there, err := readTable(root)
	if err != nil {
		return err
	}
	for mutant, cells := range there {
		for k, cell := range cells {
			if t[mutant][k] == "" {
				t.set(mutant, k, cell)
			}
		}
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	head, _, _ := strings.Cut(string(b), mark)
	var out strings.Builder
	out.WriteString(head + mark + "\n| Mutant | What is wrong | Breaks | Tests | Simulation | Real processes |\n|---|---|---|---|---|---|\n")
	for i := range all {
		m := &all[i]
		fmt.Fprintf(&out, "| `%s` | %s | %s |", m.name, m.does, m.breaks)
		for _, k := range kinds() {
			fmt.Fprintf(&out, " %s |", strings.ReplaceAll(t.cell(m.name, k), "|", "/"))
		}
		out.WriteString("\n")
	}
	by, of, twice := t.counts(all)
	out.WriteString("\n| Way | Mutants that it can reach | found |\n|---|---|---|\n")
	for _, k := range kinds() {
		fmt.Fprintf(&out, "| %s | %d | %d |\n", k, of[k], by[k])
	}
	fmt.Fprintf(&out, "| two ways or more | %d | %d |\n", len(all), twice)
	return os.WriteFile(name, []byte(out.String()), 0o644)
}

func (t table) cell(name string, k kind) string {
	if c := t[name][k]; c != "" {
		return c
	}
	return unknown
}

// found reports whether a cell says that something has found the mutant.
func found(cell string) bool {
	return cell != unknown && !strings.HasPrefix(cell, "–") && !strings.Contains(cell, "not found")
}

// counts returns how many mutants each way finds, of how many that it can reach, and how many are found
// in two ways or more.
func (t table) counts(all []mutant) (by, of map[kind]int, twice int) {
	by, of = map[kind]int{}, map[kind]int{}
	for i := range all {
		n := 0
		for _, k := range kinds() {
			c := t.cell(all[i].name, k)
			if !strings.HasPrefix(c, "–") {
				of[k]++
			}
			if found(c) {
				by[k]++
				n++
			}
		}
		if n >= 2 {
			twice++
		}
	}
	return by, of, twice
}

// summary has the counts in one line.
func (t table) summary(all []mutant) string {
	by, of, twice := t.counts(all)
	return fmt.Sprintf("%d mutants: tests find %d of %d, the simulation %d of %d that it can reach, real processes %d of %d; %d are found in two ways or more.",
		len(all), by[unit], of[unit], by[sim], of[sim], by[chaos], of[chaos], twice)
}
