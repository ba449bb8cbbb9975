package policy

import (
	"slices"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
)

// MaxPreviewed bounds the queues and exchanges that a Preview lists; it counts all.
const MaxPreviewed = 200

// Preview is what a change of one policy would do in its vhost.
type Preview struct {
	Looked, Total int // queues and exchanges that were looked at, and those that there are
	Matched       int // those that the policy can apply to and whose name its pattern matches
	Outranked     int // of these, those for which only other policies count (PO-3)
	Changed       int // those that get other settings
	Things        []Previewed
}

// Previewed is a queue or exchange that the policy matches or whose settings change.
type Previewed struct {
	Kind, Name    string // Kind is queue or exchange
	Matched       bool
	Outranked     bool
	Before, After string // the policy in force, of the kind of the one that changes; "": none
	Settings      []SettingChange
}

// SettingChange is a setting that is not the same after a change; a null value means that it is not set.
type SettingChange struct {
	Arg           string
	Before, After message.Value
}

// previewer compares two views, before and after the change of a policy.
type previewer struct {
	matcher *Matcher // of the view before; that of the view after is thrown away
	after   Matcher
	changed *entry // the policy that changes; nil: this build cannot compile its pattern
	Preview
}

// Preview compares the settings of all queues and exchanges of a vhost in two views, which differ by a policy: it is
// new, another, or gone. It ends early once stop returns true: patterns may be slow (C-8).
func (b *Matcher) Preview(before, after *catalog.View, p *catalog.Policy, stop func() bool) Preview {
	x := previewer{matcher: b}
	for _, v := range []*catalog.View{before, after} { // a deleted policy is in the first one alone
		s := (&Matcher{}).vhostPolicies(v, p.VHost)
		for _, e := range slices.Concat(s.user, s.operator) {
			if e.Name == p.Name && e.Operator == p.Operator {
				x.changed = e
			}
		}
	}
	for q := range before.Queues() {
		if q.VHost != p.VHost {
			continue
		}
		if x.Total++; !stop() {
			x.Looked++
			x.queue(before, after, q, p.Operator)
		}
	}
	for e := range before.Exchanges() {
		if e.VHost != p.VHost || e.Name == "" {
			continue
		}
		if x.Total++; !stop() {
			x.Looked++
			x.exchange(before, after, e)
		}
	}
	return x.Preview
}

// queue compares the settings of a queue.
func (x *previewer) queue(before, after *catalog.View, q *catalog.QueueRecord, operator bool) {
	oldUser, oldOperator := x.matcher.Queue(before, q)
	newUser, newOperator := x.after.Queue(after, q)
	t := Previewed{Kind: "queue", Name: q.Name, Before: name(oldUser), After: name(newUser)}
	in := newUser
	if operator {
		t.Before, t.After, in = name(oldOperator), name(newOperator), newOperator
	}
	t.Matched = x.changed != nil && x.changed.takes(q) && matches(x.changed, q.Name)
	_, alone := after.Policy(q.VHost, x.changedName(), operator)
	t.Outranked = t.Matched && alone && !merges(after, q.VHost) && name(in) != x.changedName()
	t.Settings = differences(Merge(q.Arguments, oldUser, oldOperator), Merge(q.Arguments, newUser, newOperator))
	x.add(&t)
}

// exchange compares the alternate of an exchange, the one setting that policies give to exchanges.
func (x *previewer) exchange(before, after *catalog.View, e *catalog.Exchange) {
	t := Previewed{Kind: "exchange", Name: e.Name}
	t.Matched = x.changed != nil && x.changed.takesExchanges() && matches(x.changed, e.Name)
	var was, is message.Table
	if alternate, ok := x.matcher.AlternateExchange(before, e); ok {
		was = message.Table{{Name: keyAlternateExchange, Value: message.String(alternate)}}
	}
	if alternate, ok := x.after.AlternateExchange(after, e); ok {
		is = message.Table{{Name: keyAlternateExchange, Value: message.String(alternate)}}
	}
	t.Settings = differences(was, is)
	x.add(&t)
}

// changedName is the name of the policy that changes.
func (x *previewer) changedName() string {
	if x.changed == nil {
		return ""
	}
	return x.changed.Name
}

// add counts a queue or exchange, and lists it if it is of interest. Those that change come before others.
func (x *previewer) add(t *Previewed) {
	if t.Matched {
		x.Matched++
	}
	if t.Outranked {
		x.Outranked++
	}
	changes := len(t.Settings) > 0
	if changes {
		x.Changed++
	}
	if !t.Matched && !changes {
		return
	}
	if len(x.Things) < MaxPreviewed {
		x.Things = append(x.Things, *t)
		return
	}
	if i := slices.IndexFunc(x.Things, func(o Previewed) bool { return len(o.Settings) == 0 }); changes && i >= 0 {
		x.Things[i] = *t
	}
}

// matches reports whether the pattern of a policy matches a name; one that takes too long does not (C-8).
func matches(e *entry, name string) bool {
	matched, err := e.pattern.Match(name)
	return matched && err == nil
}

// name is the name of a policy, "" of none.
func name(p *catalog.Policy) string {
	if p == nil {
		return ""
	}
	return p.Name
}

// differences returns the settings that are not the same in both tables.
func differences(before, after message.Table) (out []SettingChange) {
	for _, f := range before {
		if v, has := after.Get(f.Name); !has || !v.EqualClass(f.Value) {
			out = append(out, SettingChange{f.Name, f.Value, v})
		}
	}
	for _, f := range after {
		if _, had := before.Get(f.Name); !had {
			out = append(out, SettingChange{f.Name, message.Null(), f.Value})
		}
	}
	return out
}
