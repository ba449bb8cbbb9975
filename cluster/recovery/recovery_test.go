package recovery

import (
	"slices"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
)

// A node whose catalog is older than that of another node that is left numbers its queues anew by the other's version. A
// report of a build that did not say its version changes nothing.
func TestRenumbersByNewestVersion(t *testing.T) {
	for name, x := range map[string]struct {
		own     catalog.Version
		reports []Report
		want    bool
	}{
		"alone":                        {own: catalog.VersionSealed, want: true},
		"alone, not finalised":         {own: catalog.VersionSealed - 1},
		"another knows more":           {own: catalog.VersionSealed - 1, reports: []Report{{}, {Version: catalog.VersionSealed}}, want: true},
		"another knows less":           {own: catalog.VersionSealed, reports: []Report{{Version: catalog.VersionFirst}}, want: true},
		"another does not say":         {own: catalog.VersionSealed, reports: []Report{{}}, want: true},
		"nobody knows it is finalised": {own: catalog.VersionSealed - 1, reports: []Report{{Version: catalog.VersionSealed - 1}}},
	} {
		c := catalog.New()
		if r := c.Apply(1, 1, &catalog.RaiseVersion{Version: x.own}); r.Err != nil {
			t.Fatal(r.Err)
		}
		r := Recovery{c: Config{Reports: x.reports}, view: c.View()}
		if got := len(r.renumbering()) > 0; got != x.want {
			t.Errorf("%s: renumbered %v, want %v", name, got, x.want)
		}
	}
}

// planned is a plan of node a, and the queues in it.
type planned struct {
	Recovery
	t       *testing.T
	catalog *catalog.Catalog
}

// newPlanned returns a cluster of the nodes, of which some are lost for good, and b has made a report.
func newPlanned(t *testing.T, nodes, lost []id.NodeID) *planned {
	t.Helper()
	p := &planned{t: t, catalog: catalog.New()}
	for _, n := range nodes {
		p.apply(&catalog.RegisterNode{ID: n, Address: "127.0.0.1:1", Epoch: 1})
	}
	cat := func() map[id.GroupID]raftfsm.Stored {
		return map[id.GroupID]raftfsm.Stored{id.CatalogGroup: {Term: 1, LastTerm: 1, LastIndex: 10, Voters: nodes}}
	}
	p.Report = Report{Node: "a", Groups: cat()}
	p.c = Config{Node: "a", Lost: lost, Reports: []Report{{Node: "b", Groups: cat()}}}
	return p
}

func (p *planned) apply(c catalog.Command) catalog.Reply {
	p.t.Helper()
	r := p.catalog.Apply(p.catalog.View().Index()+1, 1, c)
	if r.Err != nil {
		p.t.Fatal(r.Err)
	}
	return r
}

// queue adds a queue with voters of which a, b or both have its log.
func (p *planned) queue(name string, voters []id.NodeID, have ...id.NodeID) {
	p.t.Helper()
	uid := p.apply(&catalog.DeclareQueue{
		VHost: "/", Name: name, Type: catalog.QueueQuorum, Durable: true, Members: voters, Leader: voters[0],
	}).UID
	for _, n := range have {
		groups := p.Report.Groups
		if n == "b" {
			groups = p.c.Reports[0].Groups
		}
		groups[uid.Group()] = raftfsm.Stored{Term: 1, LastTerm: 1, LastIndex: 5, Voters: voters}
	}
}

// Where a majority of a queue's members is left, and too few of them have anything of it, as where a node's log was lost, no
// leader would be elected for good. With the catalog the queue continues without those that have nothing. Without it
// they may not be taken out, as they may be new and vote.
func TestMembersThatHaveNothing(t *testing.T) {
	type outcome struct {
		action     Action
		left, bare []id.NodeID
	}
	abc, a, b, ab := []id.NodeID{"a", "b", "c"}, []id.NodeID{"a"}, []id.NodeID{"b"}, []id.NodeID{"a", "b"}
	for name, x := range map[string]struct {
		nodes, lost []id.NodeID
		want        map[string]outcome
	}{
		"the catalog is recovered": {[]id.NodeID{"a", "b", "c", "d", "e"}, []id.NodeID{"c", "d", "e"}, map[string]outcome{
			"both have it": {Nothing, ab, nil},
			"a has it":     {Here, a, b},
			"b has it":     {Elsewhere, b, a},
			"only on a":    {Nothing, a, nil},
			"only on b":    {Declare, b, b},
			"on b and c":   {Empty, b, b},
		}},
		"the catalog has its majority": {abc, []id.NodeID{"c"}, map[string]outcome{
			"both have it": {Nothing, ab, nil},
			"a has it":     {Nothing, ab, b},
			"b has it":     {Nothing, ab, a},
			"only on a":    {Nothing, a, nil},
			"only on b":    {Nothing, b, b},
			"on b and c":   {Declare, b, b},
		}},
	} {
		p := newPlanned(t, x.nodes, x.lost)
		p.queue("both have it", abc, "a", "b")
		p.queue("a has it", abc, "a")
		p.queue("b has it", abc, "b")
		p.queue("only on a", a, "a")
		p.queue("only on b", b)
		p.queue("on b and c", []id.NodeID{"b", "c"})
		p.view = p.catalog.View()
		p.plan()
		for i := range p.Groups[1:] {
			g := &p.Groups[1+i]
			want := x.want[g.Name]
			if g.Action != want.action || !slices.Equal(g.Left, want.left) || !slices.Equal(g.Bare, want.bare) {
				t.Errorf("%s, queue %q: it %s, left are %q, %q have nothing; want: it %s, %q, %q",
					name, g.Name, g.Action, g.Left, g.Bare, want.action, want.left, want.bare)
			}
		}
	}
}
