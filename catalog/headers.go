package catalog

import (
	"fmt"
	"strings"

	"github.com/quorate/quorate/message"
)

// ArgMatch is the binding argument that selects how headers are compared (EX-9).
const ArgMatch = "x-match"

// ComparesX reports whether a binding with these arguments compares headers whose names begin with
// x- (EX-9).
func ComparesX(args message.Table) bool {
	v, _ := args.Get(ArgMatch)
	mode, _ := v.AsString()
	return strings.HasSuffix(mode, "-with-x")
}

// headerRule is a binding of a headers exchange, ready to be matched (EX-9).
type headerRule struct {
	to    target
	any   bool          // one pair is enough
	pairs message.Table // the pairs to compare: without x-match, and without x- names unless the mode includes them
	// buckets are where the index holds the rule: in the bucket of one of its pairs if all must match,
	// otherwise in those of all pairs.
	buckets []uint64
}

// newHeaderRule prepares the arguments for matching. The modes are all, any, all-with-x and
// any-with-x; only the last two compare names that begin with x- (EX-9).
func newHeaderRule(args message.Table, to target) *headerRule {
	r := &headerRule{to: to}
	mode := "all"
	if v, ok := args.Get(ArgMatch); ok {
		mode, _ = v.AsString()
	}
	r.any = strings.HasPrefix(mode, "any")
	withX := ComparesX(args)
	for _, f := range args {
		if f.Name != ArgMatch && (withX || !strings.HasPrefix(f.Name, "x-")) {
			r.pairs = append(r.pairs, f)
		}
	}
	return r
}

// matches compares by class of type and value; a void value asks for presence only. Without pairs a
// rule matches everything under all and nothing under any.
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

// headerIndex finds the rules that may match a message without looking at the others: a rule is in
// the bucket of a pair that the message must have. Buckets are by hash, so the rules found must
// still be matched.
type headerIndex struct {
	byIdentity
	rules   tree[string, *headerRule]               // by binding identity
	always  tree[string, *headerRule]               // rules that match every message
	buckets tree[uint64, tree[string, *headerRule]] // by pairBucket
}

// pairBucket is the bucket of a pair; with a void value, of the name alone.
func pairBucket(name string, v message.Value) uint64 {
	d := digestStart.text(name).byte(0)
	if v.IsNull() {
		return d.sum()
	}
	return d.byte(1).value(v).sum()
}

// with copies the index's head; the trees below are shared with the old one.
func (x *headerIndex) with(b *Binding, ident string, to target) index {
	y := *x
	y.add(ident, newHeaderRule(b.Arguments, to))
	return &y
}

// add changes the index, which must not be shared yet.
func (x *headerIndex) add(ident string, r *headerRule) {
	switch {
	case len(r.pairs) == 0 && !r.any:
		x.always = x.always.set(ident, r)
	case r.any:
		for _, f := range r.pairs {
			r.buckets = append(r.buckets, pairBucket(f.Name, f.Value))
		}
	default:
		r.buckets = []uint64{x.rarest(r.pairs)}
	}
	for _, b := range r.buckets {
		rules, _ := x.buckets.get(b)
		x.buckets = x.buckets.set(b, rules.set(ident, r))
	}
	x.rules = x.rules.set(ident, r)
}

// rarest returns the bucket with the fewest rules: bindings often share most pairs.
func (x *headerIndex) rarest(pairs message.Table) (best uint64) {
	fewest := -1
	for _, f := range pairs {
		b := pairBucket(f.Name, f.Value)
		rules, _ := x.buckets.get(b)
		if n := rules.len(); fewest < 0 || n < fewest {
			best, fewest = b, n
		}
	}
	return best
}

// without takes the rule out of the buckets that it was put into. They are stored with the rule,
// because rarest would choose others by now.
func (x *headerIndex) without(_ *Binding, ident string) index {
	r, ok := x.rules.get(ident)
	if !ok {
		return x
	}
	y := *x
	y.rules, y.always = x.rules.without(ident), x.always.without(ident)
	for _, b := range r.buckets {
		rules, _ := y.buckets.get(b)
		if rules = rules.without(ident); rules.len() == 0 {
			y.buckets = y.buckets.without(b)
		} else {
			y.buckets = y.buckets.set(b, rules)
		}
	}
	return &y
}

// match looks only into the buckets of the message's own headers, then compares each rule found
// there in full. A rule in several buckets may be added more than once; Route drops repeats.
func (x *headerIndex) match(p *Publication, w *walk) {
	headers := p.headers()
	add := func(binding string, r *headerRule) bool {
		if r.matches(headers) {
			w.add(binding, r.to)
		}
		return true
	}
	x.always.each(add)
	if x.buckets.len() == 0 {
		return
	}
	for _, h := range headers {
		byName, _ := x.buckets.get(pairBucket(h.Name, message.Null()))
		byName.each(add)
		if !h.Value.IsNull() {
			byPair, _ := x.buckets.get(pairBucket(h.Name, h.Value))
			byPair.each(add)
		}
	}
}

// checkBinding refuses a binding with a bad x-match.
func (*headerIndex) checkBinding(e Error, c *Bind) *Error {
	v, ok := c.Arguments.Get(ArgMatch)
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
	e.Arg, e.Value = ArgMatch, v.String()
	e.Reason = `want the string "all", "any", "all-with-x" or "any-with-x", have ` + v.Kind().String()
	return &e
}

// miss names the first header that does not fit; near is the number of those that do.
func (*headerIndex) miss(b *Binding, p *Publication) (why string, near int) {
	r, headers := newHeaderRule(b.Arguments, target{}), p.headers()
	for i := range r.pairs {
		want := &r.pairs[i]
		have, there := headers.Get(want.Name)
		fault := ""
		switch {
		case !there:
			fault = fmt.Sprintf("header %q is missing", want.Name)
		case !want.Value.IsNull() && !want.Value.EqualClass(have):
			fault = fmt.Sprintf("header %q is %s, not %s", want.Name, have, want.Value)
			if have.Kind() != want.Value.Kind() {
				fault += fmt.Sprintf(" (%s against %s)", have.Kind(), want.Value.Kind())
			}
		default:
			near++
		}
		if fault != "" && why == "" {
			why = fault
		}
	}
	if why == "" {
		return "it asks for none of the message's headers", 0
	}
	return why, near
}
