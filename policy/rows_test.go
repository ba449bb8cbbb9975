package policy_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
)

// rowTest is one row and its case.
type rowTest struct {
	*testing.T
	row *argument.Row
	c   rowCase
}

func (r rowTest) name() string {
	if strings.HasSuffix(r.row.Name, "-") {
		return r.row.Name + "offset"
	}
	return r.row.Name
}

// PO-2, PO-5 to PO-7: every row of the table, from the declare, and from the
// policies, to what is in force. Each has a case, and no case is without its row.
func TestRows(t *testing.T) {
	t.Parallel()
	cases := rowCases()
	for row := range argument.Rows() {
		c, ok := cases[row.Name]
		delete(cases, row.Name)
		t.Run(row.Name, func(t *testing.T) {
			if !ok || len(c.good) == 0 || (row.Key != "") != (len(c.merge) > 0) {
				t.Fatal("needs a case in rowCases, with a value that is accepted, and with merge if policies may give it")
			}
			r := rowTest{t, row, c}
			for _, g := range c.good {
				r.accepted(g)
			}
			for _, v := range c.bad {
				r.refused(v)
			}
			r.words()
			r.ofOtherType()
			r.compared()
			byOperator := false
			for _, m := range c.merge {
				r.merged(m)
				byOperator = byOperator || m[2] != nil
			}
			if byOperator != row.Operators {
				t.Errorf("operators may give it: %t, and its case says %t", row.Operators, byOperator)
			}
		})
	}
	for name := range cases {
		t.Errorf("%s: there is no such row", name)
	}
}

// declare makes a queue with the arguments and returns the catalog.
func (r rowTest) declare(args message.Table) (*catalog.Catalog, catalog.Reply) {
	r.Helper()
	kind, byName := catalog.QueueQuorum, r.row.Name == argument.QueueType
	if v, _ := args.Get(argument.QueueType); r.c.classic || byName && v.EqualClass(message.String("classic")) {
		kind = catalog.QueueClassic
	}
	c := catalog.New()
	c.Apply(1, 0, &catalog.RegisterNode{ID: "n", Epoch: 1})
	reply := redeclare(c, args, kind)
	if reply.Err != nil {
		r.Fatal(reply.Err)
	}
	return c, reply
}

func (r rowTest) inForce(c *catalog.Catalog) argument.Settings {
	var matcher policy.Matcher
	q, _ := c.View().Queue("/", "q")
	s := matcher.InForce(c.View(), q)
	if want := s.QueueConfig(false); matcher.QueueConfig(c.View(), q) != want {
		r.Errorf("the machine's configuration is not that of what is in force")
	}
	return s
}

func (r rowTest) table(v any) message.Table {
	t := table(r.c.with...)
	if r.c.classic {
		t = append(t, table(argument.QueueType, "classic")...)
	}
	return append(t, table(r.name(), v)...)
}

func (r rowTest) resolve(args message.Table) (argument.Settings, error) {
	return policy.ResolveDeclaration(policy.Declaration{Name: "q", Durable: true, Arguments: args}, "")
}

// accepted looks for a value in what is in force, whoever gave it.
func (r rowTest) accepted(g good) {
	r.Helper()
	want, err := r.resolve(r.table(g.value).Without(r.name()))
	if err != nil && r.row.Name != "x-delayed-retry-min" {
		r.Fatal(err)
	} else if err != nil { // it alone cannot be left out
		want, _ = r.resolve(r.table(1))
	}
	g.set(&want)
	want.Warnings = nil
	same := func(who string, got argument.Settings) {
		if got.Warnings = nil; !reflect.DeepEqual(got, want) {
			r.Errorf("%v by %s:\ngot  %+v\nwant %+v", g.value, who, got, want)
		}
	}
	got, err := r.resolve(r.table(g.value))
	if err != nil {
		r.Fatalf("%v: %v", g.value, err)
	}
	same("argument", got)
	c, _ := r.declare(r.table(g.value))
	same("declare", r.inForce(c))
	if r.row.Key == "" {
		return
	}
	for who, operator := range map[string]bool{"policy": false, "operator policy": true} {
		definition := table(r.row.Key, g.value)
		alone := &catalog.Policy{VHost: "/", Name: who, Pattern: "q", ApplyTo: catalog.ApplyToAll, Operator: operator, Definition: definition}
		if operator && !r.row.Operators { // PO-5
			if err := policy.Check(alone); err == nil || !strings.Contains(err.Error(), "cannot be given by operator policies") {
				r.Errorf("%s: %v", who, err)
			}
			continue
		}
		c, _ := r.declare(table(r.c.with...))
		if reply := c.Apply(9, 0, &catalog.PutPolicy{Policy: *alone}); reply.Err != nil {
			r.Fatal(reply.Err)
		}
		same(who, r.inForce(c))
	}
}

// refused expects a declare and a policy to be refused for it by name.
func (r rowTest) refused(v any) {
	r.Helper()
	if _, err := r.resolve(r.table(v)); !slices.Equal(faults(r.T, err), []string{r.name()}) {
		r.Errorf("%v: %v", v, err)
	}
	if r.row.Key == "" {
		return
	}
	var definition message.Table
	for i := 0; i < len(r.c.with); i += 2 {
		name, _ := r.c.with[i].(string)
		definition = append(definition, table(argument.Find(name).Key, r.c.with[i+1])...)
	}
	err := policy.Check(&catalog.Policy{Definition: append(definition, table(r.row.Key, v)...)})
	if got := faults(r.T, err); !slices.Equal(got, []string{r.row.Key}) || strings.Contains(err.Error(), r.row.Name) {
		r.Errorf("%v by policy: %v", v, err)
	}
}

// words expects every word that the row lists to be tried.
func (r rowTest) words() {
	for i, w := range strings.Split(r.row.Values.String(), "`") {
		if i%2 == 0 || !strings.HasPrefix(r.row.Values.String(), "`") || strings.HasPrefix(w, `"`) {
			continue
		}
		if !slices.ContainsFunc(r.c.good, func(g good) bool { return g.value == any(w) }) {
			r.Errorf("no case has the value %q", w)
		}
	}
}

// ofOtherType expects what is for classic queues alone to be refused on others (D-2).
func (r rowTest) ofOtherType() {
	if r.row.ClassicOnly != r.c.classic {
		r.Errorf("the row is for classic queues alone: %t, its case says %t", r.row.ClassicOnly, r.c.classic)
	}
	if !r.c.classic {
		return
	}
	_, err := r.resolve(table(r.name(), r.c.good[0].value))
	if fault, ok := errors.AsType[*argument.Error](err); !ok || fault.Arg != r.name() || !fault.OtherType {
		r.Errorf("on a quorum queue: %v", err)
	}
}

// compared declares the queue again with the same value, with another and with none.
func (r rowTest) compared() {
	c, first := r.declare(r.table(r.c.good[0].value))
	q, _ := c.View().Queue("/", "q")
	again := func(args message.Table) error {
		reply := redeclare(c, args, q.Type)
		if reply.Err == nil && reply.UID != first.UID {
			r.Errorf("another queue was made")
		}
		if reply.Err != nil {
			return reply.Err
		}
		return nil
	}
	if err := again(r.table(r.c.good[0].value)); err != nil {
		r.Errorf("the same again: %v", err)
	}
	for what, args := range map[string]message.Table{
		"another value": r.table(r.c.good[1].value), "none": r.table(0).Without(r.name()),
	} {
		err := again(args)
		if r.c.free != (err == nil) || err != nil && !strings.Contains(err.Error(), r.name()) {
			r.Errorf("%s: %v", what, err)
		}
	}
}

func redeclare(c *catalog.Catalog, args message.Table, kind catalog.QueueType) catalog.Reply {
	return c.Apply(c.View().Index()+1, 0, &catalog.DeclareQueue{
		VHost: "/", Name: "q", Durable: true, Type: kind, Arguments: args, Members: []id.NodeID{"n"}, Leader: "n",
	})
}

// merged gives the argument in up to three ways.
func (r rowTest) merged(m [4]any) {
	r.Helper()
	made := func(v any) *catalog.Policy {
		if v == nil {
			return nil
		}
		return &catalog.Policy{Definition: table(r.row.Key, v)}
	}
	declared := table(r.c.with...)
	if m[0] != nil {
		declared = append(declared, table(r.name(), m[0])...)
	}
	got, _ := policy.Merge(declared, made(m[1]), made(m[2])).Get(r.name())
	if want, _ := table("x", m[3]).Get("x"); !got.EqualClass(want) {
		r.Errorf("argument %v, policy %v and operator %v give %v, want %v", m[0], m[1], m[2], got, want)
	}
}
