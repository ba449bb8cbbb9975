package archtest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readInOrder lists the packages whose files are to be read in an order, each using what stands before it.
func readInOrder(path string) bool {
	return path == "quorumq" || within(path, "cluster") || within(path, "broker")
}

// backUp lists the packages of readInOrder that still have references back up, and how many. Numbers are lowered and rows leave
// this table; none is added.
func backUp() map[string]int {
	return map[string]int{
		"broker/identity": 1,
		"cluster/gateway": 11,
		"cluster/replica": 16,
	}
}

// Files are read from the first to the last: a file uses what it declares, and what files before it do. The
// order is that of the section "Reading order" in the package comment, which then names each file, or else the
// best that bestOrder finds. What goes against it is a reference back up. With -v, the test prints the order
// and these references.
func TestFilesStandInOrder(t *testing.T) {
	var all []*source
	var paths []string
	for _, s := range load(t) {
		if readInOrder(s.path) {
			all, paths = append(all, s), append(paths, s.path)
		}
	}
	from := compiled(t, paths)
	allowed := backUp()
	for _, s := range all {
		may := allowed[s.path]
		delete(allowed, s.path)
		t.Run(s.path, func(t *testing.T) {
			p, err := s.check(from)
			if err != nil {
				t.Fatal(err)
			}
			order, wanted := writtenOrder(t, s, p)
			if !wanted {
				order = bestOrder(p.between())
			}
			back := p.backReferences(order)
			t.Logf("%d of %d references go back up against the order", len(back), len(p.references))
			for _, file := range order {
				t.Logf("\t%s", p.names[file])
			}
			for _, line := range p.describe(back) {
				t.Log(line)
			}
			switch {
			case len(back) > may:
				t.Errorf("%d references go back up, %d are allowed: let a file use what stands before it, as the test prints with -v", len(back), may)
			case len(back) < may:
				t.Errorf("%d references go back up: lower the %d in backUp", len(back), may)
			}
		})
	}
	for _, gone := range slices.Sorted(maps.Keys(allowed)) {
		t.Errorf("backUp has a row for %s, which is no package that is read in order", gone)
	}
}

// describe returns a line for each pair of files: what the one uses of the other, and where.
func (p *typed) describe(references []reference) []string {
	pairs := map[string][]string{}
	for _, r := range references {
		pair := p.names[r.from] + " uses of " + p.names[r.to]
		pairs[pair] = append(pairs[pair], fmt.Sprintf("%s (%s)", r.name, r.place[strings.LastIndexByte(r.place, ':')+1:]))
	}
	var lines []string
	for pair, names := range pairs {
		lines = append(lines, fmt.Sprintf("%3d: %s: %s", len(names), pair, strings.Join(names, ", ")))
	}
	slices.Sort(lines)
	slices.Reverse(lines)
	return lines
}

// fileName matches the names of files in a reading order.
var fileName = regexp.MustCompile(`\b[a-z0-9_]+\.go\b`)

// writtenOrder returns the order of the files that the package comment gives, if it does. It names all files, those for other
// machines too.
func writtenOrder(t *testing.T, s *source, p *typed) (order []int, written bool) {
	t.Helper()
	var named, there []string
	for _, f := range s.files {
		if _, list, is := strings.Cut(f.Doc.Text(), "# Reading order"); is {
			named = fileName.FindAllString(list, -1)
		}
	}
	if named == nil {
		return nil, false
	}
	for _, f := range s.files {
		there = append(there, s.name(f))
	}
	if slices.Sort(there); !slices.Equal(there, slices.Sorted(slices.Values(named))) {
		t.Fatalf("the package comment's reading order is to have each file once, and has\n\t%v,\nthe files are\n\t%v",
			slices.Sorted(slices.Values(named)), there)
	}
	for _, name := range named {
		if i := slices.Index(p.names, name); i >= 0 {
			order = append(order, i)
		}
	}
	return order, true
}
