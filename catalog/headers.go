package catalog

import (
	"strings"

	"github.com/quorate/quorate/message"
)

const argMatch = "x-match"

// headerRule is a binding of a headers exchange, ready to be matched (EX-9).
type headerRule struct {
	to    target
	any   bool          // one pair is enough
	pairs message.Table // what takes part: without x-match, and without x- names unless asked for
}

func newHeaderRule(args message.Table, to target) *headerRule {
	r := &headerRule{to: to}
	mode := "all"
	if v, ok := args.Get(argMatch); ok {
		mode, _ = v.AsString()
	}
	r.any = strings.HasPrefix(mode, "any")
	withX := strings.HasSuffix(mode, "-with-x")
	for _, f := range args {
		if f.Name != argMatch && (withX || !strings.HasPrefix(f.Name, "x-")) {
			r.pairs = append(r.pairs, f)
		}
	}
	return r
}

// checkMatchArgument refuses a binding with a bad x-match.
func checkMatchArgument(e Error, args message.Table) *Error {
	v, ok := args.Get(argMatch)
	if !ok {
		return nil
	}
	mode, isString := v.AsString()
	if isString {
		switch mode {
		case "all", "any", "all-with-x", "any-with-x":
			return nil
		}
	}
	e.Arg, e.Value = argMatch, v.String()
	e.Reason = `want the string "all", "any", "all-with-x" or "any-with-x", have ` + v.Kind().String()
	return &e
}

// matches compares by class of type and value; a void value asks for presence only. No
// pairs match everything under all and nothing under any.
func (r *headerRule) matches(headers message.Table) bool {
	for i := range r.pairs {
		have, ok := headers.Get(r.pairs[i].Name)
		want := r.pairs[i].Value
		if ok && !want.IsNull() {
			ok = want.EqualClass(have)
		}
		if ok == r.any {
			return r.any
		}
	}
	return !r.any
}
