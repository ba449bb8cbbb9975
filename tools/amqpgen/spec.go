package main

import (
	"fmt"
	"strings"
)

// spec is the part of the specification that the generator reads.
type spec struct {
	Constants []*constant `xml:"constant"`
	Domains   []domain    `xml:"domain"`
	Classes   []*class    `xml:"class"`
}

// constant is a frame type or reply code; Class is soft-error or hard-error for codes that are
// faults.
type constant struct {
	Name  string `xml:"name,attr"`
	Value int    `xml:"value,attr"`
	Class string `xml:"class,attr"`
}

// domain names a type; the specification gives most fields a domain instead.
type domain struct {
	Name string `xml:"name,attr"`
	Type string `xml:"type,attr"`
}

// class is a class of methods; Index is its number on the wire.
type class struct {
	Name    string    `xml:"name,attr"`
	Index   int       `xml:"index,attr"`
	Methods []*method `xml:"method"`
}

// method is a method of a class; with Content, a header and a body follow it.
type method struct {
	Name      string   `xml:"name,attr"`
	Index     int      `xml:"index,attr"`
	Content   bool     `xml:"content,attr"`
	AllFields []*field `xml:"field"`

	class *class
	Steps []step
}

// field is an argument of a method. Reserved fields are written as zero and not read.
type field struct {
	Name     string `xml:"name,attr"`
	Domain   string `xml:"domain,attr"`
	Type     string `xml:"type,attr"`
	Reserved bool   `xml:"reserved,attr"`
}

// step is a part of a method's bytes: a field, or neighbouring bits that share octets.
type step struct {
	Field *field
	Bits  []*field
}

// resolve replaces domains by types and combines neighbouring bits.
func (s *spec) resolve() error {
	types := map[string]string{}
	for _, d := range s.Domains {
		types[d.Name] = d.Type
	}
	for _, c := range s.Classes {
		for _, m := range c.Methods {
			m.class = c
			for _, f := range m.AllFields {
				if f.Type == "" {
					f.Type = types[f.Domain]
				}
				if _, known := goTypes()[f.Type]; !known {
					return fmt.Errorf("%s.%s: field %s has the unknown type %q", c.Name, m.Name, f.Name, f.Type)
				}
				m.step(f)
			}
		}
	}
	return nil
}

// step adds a field to the steps. Up to eight bits that follow one another share an octet (AMQP
// 0-9-1 §4.2.5.2).
func (m *method) step(f *field) {
	if f.Type != "bit" {
		m.Steps = append(m.Steps, step{Field: f})
		return
	}
	if n := len(m.Steps); n > 0 && m.Steps[n-1].Field == nil && len(m.Steps[n-1].Bits) < 8 {
		m.Steps[n-1].Bits = append(m.Steps[n-1].Bits, f)
		return
	}
	m.Steps = append(m.Steps, step{Bits: []*field{f}})
}

// goTypes maps wire types to Go types.
func goTypes() map[string]string {
	return map[string]string{
		"bit": "bool", "octet": "uint8", "short": "uint16", "long": "uint32", "longlong": "uint64",
		"shortstr": "string", "longstr": "string", "timestamp": "uint64", "table": "message.Table",
	}
}

// Replies returns the reply codes. The other constants describe frames.
func (s *spec) Replies() []*constant {
	var codes []*constant
	for _, c := range s.Constants {
		if c.Value >= 200 && c.Name != "frame-end" {
			codes = append(codes, c)
		}
	}
	return codes
}

// GoName returns the constant's name.
func (c *constant) GoName() string { return goName(c.Name) }

// Hard reports whether the code ends the connection.
func (c *constant) Hard() bool { return c.Class == "hard-error" }

// Text returns the beginning of a close's reply text.
func (c *constant) Text() string { return strings.ToUpper(strings.ReplaceAll(c.Name, "-", "_")) }

// GoName returns the class's Go name.
func (c *class) GoName() string { return goName(c.Name) }

// GoName returns the name of the method's struct.
func (m *method) GoName() string { return goName(m.class.Name, m.Name) }

// ID returns the class in the upper half and the method in the lower half.
func (m *method) ID() string { return fmt.Sprintf("%d<<16 | %d", m.class.Index, m.Index) }

// Full returns the name in the specification's form.
func (m *method) Full() string { return m.class.Name + "." + m.Name }

// Fields returns the fields that are not reserved.
func (m *method) Fields() []*field {
	var fields []*field
	for _, f := range m.AllFields {
		if !f.Reserved {
			fields = append(fields, f)
		}
	}
	return fields
}

// Fixed reports whether a method has no bytes after its id.
func (m *method) Fixed() bool { return len(m.AllFields) == 0 }

// GoName returns the field's name.
func (f *field) GoName() string { return goName(f.Name) }

// GoType returns the field's type.
func (f *field) GoType() string { return goTypes()[f.Type] }

// Read returns the expression that reads the field.
func (f *field) Read() string { return "d." + f.Type + "()" }

// Append returns the statement that appends the field to b.
func (f *field) Append() string {
	value := "m." + f.GoName()
	if f.Reserved {
		value = map[string]string{"shortstr": `""`, "longstr": `""`, "table": "nil"}[f.Type]
		if value == "" {
			value = "0"
		}
	}
	return fmt.Sprintf("b = append%s(b, %s)", strings.ToUpper(f.Type[:1])+f.Type[1:], value)
}

// HardReplies returns the codes that end the connection.
func (s *spec) HardReplies() []*constant {
	var codes []*constant
	for _, c := range s.Replies() {
		if c.Hard() {
			codes = append(codes, c)
		}
	}
	return codes
}

// Used reports whether one of the bits is not reserved.
func (s step) Used() bool {
	for _, f := range s.Bits {
		if !f.Reserved {
			return true
		}
	}
	return false
}
