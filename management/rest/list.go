package rest

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a page (as RabbitMQ's).
const (
	defaultPageSize = 100
	maxPageSize     = 500
)

// maxFilterBytes bounds the name or pattern that a list is filtered by.
const maxFilterBytes = 1024

// rows is a list before it is filtered, sorted and cut into pages.
type rows struct {
	count int
	name  func(i int) string // what a filter and the usual order use
	build func(i int) object // called only for rows that are shown, or if the order needs it
	// value returns what build would put at a path, for paths that it knows; nil: it knows none. An order costs much less
	// by it than by building all rows.
	value func(i int, path string) (v any, known bool)
}

// of makes rows of what can be named and built one by one.
func of[T any](all []T, name func(*T) string, build func(*T) object) rows {
	return rows{count: len(all), name: func(i int) string { return name(&all[i]) }, build: func(i int) object { return build(&all[i]) }}
}

// choice is what the query says about a list.
type choice struct {
	page, size int // page 0: the whole list
	name       string
	match      *regexp.Regexp // nil: names contain name
	sort       string
	reverse    bool
	columns    []string
}

// choiceOfRows reads the parameters of listQuery.
func (c *call) choiceOfRows() (choice, error) {
	x := choice{size: defaultPageSize, name: c.text("name"), sort: c.text("sort"), reverse: c.text("sort_reverse") == "true", columns: c.columns()}
	if len(x.name) > maxFilterBytes {
		return x, bad("name", strconv.Itoa(len(x.name))+" bytes", "the limit is "+strconv.Itoa(maxFilterBytes)+" bytes")
	}
	if c.text("use_regex") == "true" {
		var err error
		if x.match, err = regexp.Compile(x.name); err != nil { // linear in time, whatever the pattern
			return x, bad("name", x.name, "is no regular expression: "+err.Error())
		}
	}
	if !c.given("page") {
		return x, nil
	}
	var err error
	if x.page, err = strconv.Atoi(c.text("page")); err != nil || x.page < 1 {
		return x, bad("page", c.text("page"), "want 1 or more")
	}
	if c.given("page_size") {
		if x.size, err = strconv.Atoi(c.text("page_size")); err != nil || x.size < 1 || x.size > maxPageSize {
			return x, bad("page_size", c.text("page_size"), "want 1 to "+strconv.Itoa(maxPageSize))
		}
	}
	return x, nil
}

// takes reports whether a row of this name is chosen.
func (x *choice) takes(name string) bool {
	if x.match != nil {
		return x.match.MatchString(name)
	}
	return strings.Contains(name, x.name)
}

// list answers with rows as the query wants them.
func (c *call) list(all rows, silent []string) (reply, error) {
	x, err := c.choiceOfRows()
	if err != nil {
		return reply{}, err
	}
	var chosen []int
	for i := range all.count {
		if x.takes(all.name(i)) {
			chosen = append(chosen, i)
		}
	}
	built := all.order(chosen, x.sort)
	if x.reverse {
		slices.Reverse(chosen)
	}
	shown := chosen
	if x.page > 0 {
		if x.page > 1 && x.page-1 > (len(chosen)-1)/x.size { // before a product that may overflow
			return reply{}, bad("page", strconv.Itoa(x.page), "is beyond the last page")
		}
		from := (x.page - 1) * x.size
		shown = chosen[from:min(from+x.size, len(chosen))]
	}
	items := make([]object, len(shown))
	for n, i := range shown {
		o, is := built[i]
		if !is {
			o = all.build(i)
		}
		items[n] = o.only(x.columns)
	}
	if x.page == 0 {
		return reply{body: items, silent: silent}, nil
	}
	return reply{silent: silent, body: object{
		"filtered_count": len(chosen), "item_count": len(items), "items": items, "page": x.page,
		"page_count": max(1, (len(chosen)+x.size-1)/x.size), "page_size": x.size, "total_count": all.count,
	}}, nil
}

// order sorts rows by what they have at a path, and returns those that it had to build; "": they are in order. Rows that
// have the same there keep their places.
func (r *rows) order(chosen []int, path string) map[int]object {
	if path == "" {
		return nil
	}
	var built map[int]object
	keys := make([]sortKey, len(chosen))
	for n, i := range chosen {
		if path == "name" {
			keys[n] = sortKey{row: i, rank: rankOther, word: r.name(i)}
			continue
		}
		var v any
		known := false
		if r.value != nil {
			v, known = r.value(i, path)
		}
		if !known {
			if built == nil {
				built = map[int]object{}
			}
			built[i] = r.build(i)
			v = built[i].at(path)
		}
		keys[n] = sortKeyOf(i, v)
	}
	slices.SortFunc(keys, compareKeys)
	for n := range keys {
		chosen[n] = keys[n].row
	}
	return built
}

// at returns the value at a path of names with dots between, or nil.
func (o object) at(path string) any {
	for {
		if v, is := o[path]; is {
			return v
		}
		first, rest, more := strings.Cut(path, ".")
		in, is := o[first].(object)
		if !more || !is {
			return nil
		}
		o, path = in, rest
	}
}

// only returns the columns, all of them if none are named.
func (o object) only(columns []string) object {
	if len(columns) == 0 {
		return o
	}
	out := object{}
	for _, path := range columns {
		out.copyPath(o, path)
	}
	return out
}

// copyPath copies what from has at a path.
func (o object) copyPath(from object, path string) {
	if v, is := from[path]; is {
		o[path] = v
		return
	}
	first, rest, more := strings.Cut(path, ".")
	in, is := from[first].(object)
	if !more || !is {
		return
	}
	to, is := o[first].(object)
	if !is {
		to = object{}
		o[first] = to
	}
	to.copyPath(in, rest)
}

// The ranks of values in an order: those that are missing come first, then numbers, then the rest as text.
const (
	rankMissing = iota
	rankNumber
	rankOther
)

// sortKey is what a row is sorted by. It is made once for each row, since a row is compared many times.
type sortKey struct {
	row    int
	rank   int
	number float64
	word   string
}

// sortKeyOf makes the key of a row for a value.
func sortKeyOf(row int, v any) sortKey {
	k := sortKey{row: row, rank: rankNumber}
	switch v := v.(type) {
	case nil:
		k.rank = rankMissing
	case int:
		k.number = float64(v)
	case int64:
		k.number = float64(v)
	case uint64:
		k.number = float64(v)
	case uint32:
		k.number = float64(v)
	case uint16:
		k.number = float64(v)
	case float64:
		k.number = v
	case string:
		k.rank, k.word = rankOther, v
	default:
		b, _ := json.Marshal(v) // what cannot be written is equal to everything
		k.rank, k.word = rankOther, string(b)
	}
	return k
}

// compareKeys puts rows whose values are equal in the order that they had.
func compareKeys(a, b sortKey) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.number, b.number), cmp.Compare(a.word, b.word), cmp.Compare(a.row, b.row))
}
