package main

import (
	"fmt"
	"strings"
)

// spec is what is read of the specification.
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

// method is a method of a class; Content: a header and a body follow it.
type method struct {
	Name      string   `xml:"name,attr"`
	Index     int      `xml:"index,attr"`
	Content   bool     `xml:"content,attr"`
	AllFields []*field `xml:"field"`

	class *class
	Steps []step
}

// field is an argument of a method. Reserved ones are written as zero and not read.
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

// resolve replaces domains by types and gathers bits.
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

// goTypes maps types of the wire to those of Go.
func goTypes() map[string]string {
	return map[string]string{
		"bit": "bool", "octet": "uint8", "short": "uint16", "long": "uint32", "longlong": "uint64",
		"shortstr": "string", "longstr": "string", "timestamp": "uint64", "table": "message.Table",
	}
}

// Replies are the constants that close a channel or a connection, or say why not.
func (s *spec) Replies() []*constant {
	var codes []*constant
	for _, c := range s.Constants {
		if c.Value >= 200 && c.Name != "frame-end" {
			codes = append(codes, c)
		}
	}
	return codes
}

// GoName is the constant's name.
func (c *constant) GoName() string { return goName(c.Name) }

// Hard reports whether the code ends the connection.
func (c *constant) Hard() bool { return c.Class == "hard-error" }

// Text is how the code begins the text of a close.
func (c *constant) Text() string { return strings.ToUpper(strings.ReplaceAll(c.Name, "-", "_")) }

// GoName is the name of the class.
func (c *class) GoName() string { return goName(c.Name) }

// GoName is the name of the method's struct.
func (m *method) GoName() string { return goName(m.class.Name, m.Name) }

// ID is the class in the upper half and the method in the lower one.
func (m *method) ID() string { return fmt.Sprintf("%d<<16 | %d", m.class.Index, m.Index) }

// Full is the name in the specification's form.
func (m *method) Full() string { return m.class.Name + "." + m.Name }

// Fields are those that mean something.
func (m *method) Fields() []*field {
	var fields []*field
	for _, f := range m.AllFields {
		if !f.Reserved {
			fields = append(fields, f)
		}
	}
	return fields
}

// Fixed reports whether a method has no bytes behind its id.
func (m *method) Fixed() bool { return len(m.AllFields) == 0 }

// GoName is the field's name.
func (f *field) GoName() string { return goName(f.Name) }

// GoType is the field's type.
func (f *field) GoType() string { return goTypes()[f.Type] }

// Read is the expression that reads the field.
func (f *field) Read() string { return "d." + f.Type + "()" }

// Append is the statement that appends the field to b.
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

// HardReplies are those that end the connection.
func (s *spec) HardReplies() []*constant {
	var codes []*constant
	for _, c := range s.Replies() {
		if c.Hard() {
			codes = append(codes, c)
		}
	}
	return codes
}

// Used reports whether one of the bits means something.
func (s step) Used() bool {
	for _, f := range s.Bits {
		if !f.Reserved {
			return true
		}
	}
	return false
}
