package policy

import (
	"fmt"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
)

// Source is an argument in force with its origin (G-20).
type Source struct {
	Arg   string
	Value message.Value
	From  string // argument, policy NAME or operator policy NAME
}

// Sources returns each argument in force, as Merge returns it, with its origin; user and operator
// are the policies, nil for none. If several sources have the value in force, the result names the
// one with the highest precedence.
func Sources(declared message.Table, user, operator *catalog.Policy) []Source {
	merged := Merge(declared, user, operator)
	out := make([]Source, 0, len(merged))
	for _, f := range merged {
		s := Source{Arg: f.Name, Value: f.Value, From: "argument"}
		if r := argument.Find(f.Name); r != nil && r.Key != "" {
			s.From = source(r, f.Value, declared, user, operator)
		}
		out = append(out, s)
	}
	return out
}

// source names who gave a value.
func source(r *argument.Row, v message.Value, declared message.Table, user, operator *catalog.Policy) string {
	gave := func(t message.Table, name string) bool {
		g, ok := t.Get(name)
		return ok && g.EqualClass(v)
	}
	switch {
	case r.Merging != argument.ArgumentFirst && gave(definition(operator), r.Key):
		return fmt.Sprintf("operator policy %q", operator.Name)
	case gave(declared, r.Name):
		return "argument"
	case gave(definition(user), r.Key):
		return fmt.Sprintf("policy %q", user.Name)
	}
	return "several together" // such as a highest delay that was raised to the lowest
}

// NameOf returns the name of a policy, "" for nil.
func NameOf(p *catalog.Policy) string {
	if p == nil {
		return ""
	}
	return p.Name
}
