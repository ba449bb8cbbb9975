package message

import (
	"slices"
	"strings"
)

// Field is one named value of a Table.
type Field struct {
	Name  string
	Value Value
}

// Table is an ordered list of fields; order is kept through storage. Names are expected
// to be unique; where a table from the wire repeats a name, the first one counts.
type Table []Field

// Get returns the value of the first field of that name.
func (t Table) Get(name string) (Value, bool) {
	for i := range t {
		if t[i].Name == name {
			return t[i].Value, true
		}
	}
	return Value{}, false
}

// Set replaces the value of the first field of that name, in place, or adds a field at
// the end. Clone first when others hold the table.
func (t *Table) Set(name string, v Value) {
	for i := range *t {
		if (*t)[i].Name == name {
			(*t)[i].Value = v
			return
		}
	}
	*t = append(*t, Field{name, v})
}

// Delete removes all fields of that name, in place, and reports whether there were any.
// Use Without when others hold the table.
func (t *Table) Delete(name string) bool {
	n := len(*t)
	*t = slices.DeleteFunc(*t, func(f Field) bool { return f.Name == name })
	return len(*t) < n
}

// Clone returns a copy whose fields can be set without changing t.
func (t Table) Clone() Table { return slices.Clone(t) }

// Without returns the table without the named fields: t itself when it has none of them,
// else a new table. It never changes t.
func (t Table) Without(names ...string) Table {
	if !slices.ContainsFunc(t, func(f Field) bool { return slices.Contains(names, f.Name) }) {
		return t
	}
	out := make(Table, 0, len(t))
	for _, f := range t {
		if !slices.Contains(names, f.Name) {
			out = append(out, f)
		}
	}
	return out
}

// Merged returns a table with the fields of both, those of over replacing t's of the same
// name (MSG-6). It never changes t or over, but may return one of them.
func (t Table) Merged(over Table) Table {
	switch {
	case len(over) == 0:
		return t
	case len(t) == 0:
		return over
	}
	out := make(Table, 0, len(t)+len(over))
	for _, f := range t {
		if _, replaced := over.Get(f.Name); !replaced {
			out = append(out, f)
		}
	}
	return append(out, over...)
}

// Annotate adds the annotations of a return or discard, as they are stored, to those of the message, and also returns
// them alone (DEL-11).
func (m *Message) Annotate(stored []byte) (added Table, err error) {
	if added, _, err = DecodeTable(stored); err != nil {
		return nil, err
	}
	m.Annotations = MergedAnnotations(m.Annotations, added)
	return added, nil
}

// MergedAnnotations adds annotations to earlier ones, which give way to those of the same name
// (DEL-11). Where both together are more than can be stored, the added ones stay alone.
func MergedAnnotations(before, added Table) Table {
	t := before.Merged(added)
	if CheckTable("annotations", t) != nil {
		return added
	}
	return t
}

// EqualClass reports whether both tables have the same names with values that are equal by
// class (see Value.EqualClass), in any order.
func (t Table) EqualClass(u Table) bool {
	return t.within(u) && u.within(t)
}

// within reports whether u has all fields of t with equal values; the order does not count.
func (t Table) within(u Table) bool {
	for _, f := range t {
		if w, ok := u.Get(f.Name); !ok || !f.Value.EqualClass(w) {
			return false
		}
	}
	return true
}

// String returns the table in a form for error texts and logs, for example {a=1 b="x"}.
func (t Table) String() string {
	var b strings.Builder
	t.write(&b)
	return b.String()
}

// write is for people: what it writes cannot be read back.
func (t Table) write(b *strings.Builder) {
	b.WriteByte('{')
	for i, f := range t {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(f.Name)
		b.WriteByte('=')
		f.Value.write(b)
	}
	b.WriteByte('}')
}
