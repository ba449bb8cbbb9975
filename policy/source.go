package policy

import (
	"fmt"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
)

// Source tells where a setting in force comes from (G-20).
type Source struct {
	Arg   string
	Value message.Value
	From  string // argument, policy NAME or operator policy NAME
}

// Sources returns for each argument in force, as Merge gives it, where it comes from; user
// and operator are the policies, nil for none. Where several gave the value that is in
// force, the one that counts first is named.
func Sources(declared message.Table, user, operator *catalog.Policy) []Source {
	merged := Merge(declared, user, operator)
	byArg := make(map[string]key)
	for _, k := range keys() {
		byArg[k.arg] = k
	}
	out := make([]Source, 0, len(merged))
	for _, f := range merged {
		s := Source{Arg: f.Name, Value: f.Value, From: "argument"}
		if k, ok := byArg[f.Name]; ok {
			s.From = k.source(f.Value, value(declared, k.arg), user, operator)
		}
		out = append(out, s)
	}
	return out
}

// source names who gave a value.
func (k key) source(v message.Value, argument *message.Value, user, operator *catalog.Policy) string {
	by := map[string]*message.Value{
		"argument": argument, "policy": given(user, k.name), "operator policy": given(operator, k.name),
	}
	order := []string{"operator policy", "argument", "policy"}
	if k.merging == argumentFirst {
		order = []string{"argument", "policy"}
	}
	for _, who := range order {
		if g := by[who]; g == nil || !g.EqualClass(v) {
			continue
		}
		switch who {
		case "policy":
			return fmt.Sprintf("policy %q", user.Name)
		case "operator policy":
			return fmt.Sprintf("operator policy %q", operator.Name)
		}
		return who
	}
	return "several together" // such as a highest delay that was raised to the lowest
}
