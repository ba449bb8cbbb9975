package storesim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
)

// group names a Raft group.
type group int

const (
	catalogGroup group = iota
	queueGroup
	groups
)

// String implements fmt.Stringer.
func (g group) String() string { return [groups]string{"the catalog", "the queue"}[g] }

const (
	nodes = 4 // three found the cluster, one comes later
	// traceLen is how many events are kept for a report.
	traceLen = 80
)

// world is all there is in a run.
type world struct {
	cfg    Config
	rng    *rand.Rand
	result Result
	broken *Violation
	now    int  // turns of chance so far
	quiet  bool // faults have ended
	events []string
	acts   []act
	total  int

	nodes [nodes]*node
	cut   map[[2]int]bool // links that are down, both ways
	queue id.QueueUID

	// What was committed, and who led in which term.
	ledger  [groups][]entry
	terms   [groups][]uint64 // of the leaders that committed the entries of ledger
	leaders [groups]map[uint64]id.NodeID
	first   *config // of the queue's group
	stores  uint64
	payload uint64
}

// act is something that may happen, and how often compared with others.
type act struct {
	weight int
	do     func(n *node)
}

// newWorld founds the cluster of all nodes but one, which joins later, and draws how often each act comes.
func newWorld(c Config) *world {
	w := &world{cfg: c, rng: rand.New(rand.NewPCG(c.Seed, 0x57)), cut: map[[2]int]bool{}}
	for g := range w.leaders {
		w.leaders[g] = map[uint64]id.NodeID{}
	}
	for i := range w.nodes {
		w.nodes[i] = &node{w: w, idx: i, name: id.NodeID("n" + strconv.Itoa(i))}
		w.nodes[i].disk = w.newDisk()
		w.nodes[i].disk.founding = i < nodes-1
		w.nodes[i].boot()
	}
	w.nodes[nodes-1].up = false
	w.found()
	rare := func(most int) int { return w.rng.IntN(most + 1) }
	// Half of the runs are calm: with lost disks and elections all the time no leader gets far enough to move members.
	wild := w.rng.IntN(2)
	w.acts = []act{
		{250 + rare(300), w.pairwise((*node).replicate)},
		{200, w.pairwise((*node).askVote)},
		{200, w.each((*node).advance)},
		{100, (*node).apply},
		{1 + rare(3) + wild*(30+rare(60)), w.each((*node).stand)},
		{60, (*node).publish},
		{60, (*node).register},
		{80, (*node).lookAfterMembers},
		{60, (*node).grow},
		{80, (*node).changeMembers},
		{40, (*node).completeQueue},
		{20 + rare(80), (*node).moveQueue},
		{(1 - wild) * (100 + rare(400)), func(n *node) { w.runAll([]*node{n, w.nodes[w.rng.IntN(nodes)]}) }}, // progress
		{rare(5) + wild*30, w.flip},
		{3 + rare(6) + wild*(20+rare(60)), (*node).crashOrStart},
		{wild * rare(20), (*node).wipe},
		{wild * rare(20), (*node).loseCatalog},
		{rare(30), (*node).replaceSome},
		{rare(25), (*node).forgetSome},
	}
	for _, a := range w.acts {
		w.total += a.weight
	}
	return w
}

// each lets an act take place in one of the groups.
func (w *world) each(do func(*node, group)) func(*node) {
	return func(n *node) { do(n, group(w.rng.IntN(int(groups)))) }
}

func (w *world) pairwise(do func(*node, group, *node)) func(*node) {
	return func(n *node) { do(n, group(w.rng.IntN(int(groups))), w.nodes[w.rng.IntN(nodes)]) }
}

// step lets one act happen, drawn by weight.
func (w *world) step() {
	w.now++
	p := w.rng.IntN(w.total)
	for _, a := range w.acts {
		if p -= a.weight; p < 0 {
			a.do(w.nodes[w.rng.IntN(nodes)])
			return
		}
	}
}

// flip breaks or mends a link.
func (w *world) flip(n *node) {
	if o := w.rng.IntN(nodes); o != n.idx && !w.quiet {
		k := [2]int{min(n.idx, o), max(n.idx, o)}
		if w.cut[k] = !w.cut[k] && w.rng.IntN(2) == 0; !w.cut[k] {
			delete(w.cut, k)
		}
	}
}

// linked reports whether two nodes talk to each other: both run, the link is there, and
// neither refuses the other's store by its view.
func (w *world) linked(a, b *node) bool {
	return a.up && b.up && !w.cut[[2]int{min(a.idx, b.idx), max(a.idx, b.idx)}] && a.admits(b) && b.admits(a)
}

// nodeOf is nil for an unknown name.
func (w *world) nodeOf(name id.NodeID) *node {
	for _, n := range w.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// event keeps the last traceLen events.
func (w *world) event(format string, args ...any) {
	if len(w.events) == traceLen {
		w.events = w.events[1:]
	}
	w.events = append(w.events, strconv.Itoa(w.result.Steps)+": "+fmt.Sprintf(format, args...))
}

// broke keeps the first violation, of a rule: later ones may follow from it.
func (w *world) broke(rule, format string, args ...any) {
	if w.broken == nil {
		w.broken = &Violation{Config: w.cfg, Rule: rule, Text: fmt.Sprintf(format, args...), Events: slices.Clone(w.events)}
	}
}

// elected judges a new leader: it is the only one of its term, and has all that was committed in earlier ones. One that
// gets its votes when a later term has a leader need not have what that one commits.
func (w *world) elected(n *node, g group, m *member, term uint64) {
	if other, is := w.leaders[g][term]; is && other != n.name {
		w.broke("one leader", "%s and %s both lead %s in term %d", other, n.name, g, term)
	}
	w.leaders[g][term] = n.name
	for i := range w.ledger[g] {
		if w.terms[g][i] < term && (i >= len(m.log) || !same(&m.log[i], &w.ledger[g][i])) {
			w.broke("PUB-7", "%s leads %s in term %d without entry %d, which was committed in term %d", n.name, g, term, i+1, w.terms[g][i])
			return
		}
	}
}

// committed records what the leader of a term commits.
func (w *world) committed(g group, m *member, term, upTo uint64) {
	for i := range upTo {
		switch {
		case i < uint64(len(w.ledger[g])):
			if !same(&m.log[i], &w.ledger[g][i]) {
				w.broke("PUB-7", "entry %d of %s is committed twice, in terms %d and %d", i+1, g, w.ledger[g][i].term, m.log[i].term)
			}
		default:
			w.ledger[g], w.terms[g] = append(w.ledger[g], m.log[i]), append(w.terms[g], term)
			w.result.Commits++
		}
	}
}

func same(a, b *entry) bool {
	return a.term == b.term && a.message == b.message && a.config == b.config
}

// sortedKeys makes the order of a map the same in each run of a seed.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// found makes the first three nodes a cluster with one queue.
func (w *world) found() {
	c := &config{}
	for _, n := range w.nodes[:nodes-1] {
		c.voters = append(c.voters, n.name)
	}
	first := w.nodes[0]
	m := first.member(catalogGroup)
	m.term, m.log = 1, []entry{{term: 1, config: c}}
	w.quiet = true
	for range 200 {
		w.runAll(w.nodes[:nodes-1])
	}
	lead := w.leader(catalogGroup)
	if lead == nil {
		w.broke("founded", "the catalog has no leader at the start")
		return
	}
	lead.propose(lead, &catalog.RaiseVersion{Version: catalog.VersionStores}, func(catalog.Reply) {})
	for range 100 {
		w.runAll(w.nodes[:nodes-1])
	}
	lead = w.leader(catalogGroup)
	lead.propose(lead, &catalog.DeclareQueue{
		VHost: catalog.DefaultVHost, Name: "q", Type: catalog.QueueQuorum, Durable: true, Members: c.voters, Leader: first.name,
	}, func(r catalog.Reply) { w.queue = r.UID })
	for range 200 {
		w.runAll(w.nodes[:nodes-1])
	}
	w.quiet = false
	if w.queue == 0 {
		w.broke("founded", "the queue was not declared")
	}
}

// leader returns who leads a group and has a majority at hand, nil if nobody does.
func (w *world) leader(g group) (newest *node) {
	var term uint64
	for _, n := range w.nodes {
		if r, _ := n.leads(g); r != nil && n.up && r.term > term {
			newest, term = n, r.term
		}
	}
	return newest
}

// runAll lets everything happen once that is no fault, in an order by chance.
func (w *world) runAll(among []*node) {
	for _, i := range w.rng.Perm(len(among)) {
		n := among[i]
		w.now++
		if !n.up {
			continue
		}
		n.apply()
		n.register()
		n.lookAfterMembers()
		for g := range groups {
			if w.leader(g) == nil && w.rng.IntN(4) == 0 {
				n.stand(g)
			}
			for _, p := range w.nodes {
				n.askVote(g, p)
				n.replicate(g, p)
			}
			n.advance(g)
		}
		n.grow()
		n.changeMembers()
		n.completeQueue()
	}
}

// healing is how many rounds a cluster has to be whole again once there are no faults.
const healing = 3000

// heal ends all faults, and waits until the cluster is whole: every node votes in the catalog
// group, and the queue has a leader and three members.
func (w *world) heal() {
	w.quiet = true
	clear(w.cut)
	for _, n := range w.nodes {
		if !n.up {
			n.boot()
		}
	}
	for range healing {
		if w.broken != nil || w.lacks() == "" {
			return
		}
		w.result.Steps++
		w.nodes[w.rng.IntN(nodes)].replaceSome()
		if lead := w.leader(catalogGroup); lead != nil {
			lead.renewForgotten()
		}
		for _, n := range w.nodes {
			if !n.up { // forgotten by a command of before
				n.boot()
			}
		}
		w.runAll(w.nodes[:])
	}
	w.broke("whole", "the cluster is not whole again: %s", w.lacks())
	w.broken.Stuck = true
}

// lacks reports what is missing, "" if nothing is.
func (w *world) lacks() string {
	for g := range groups {
		lead := w.leader(g)
		if lead == nil {
			return g.String() + " has no leader"
		}
		_, m := lead.leads(g)
		c, _ := m.config()
		if want := min(nodes, 3+1-int(g)); len(c.voters) != want || len(c.learners) > 0 {
			return fmt.Sprintf("%s has voters %v and learners %v", g, c.voters, c.learners)
		}
		if len(w.ledger[g]) > int(lead.commit[g]) {
			return fmt.Sprintf("%s has committed %d entries again, of %d", g, lead.commit[g], len(w.ledger[g]))
		}
	}
	for _, n := range w.nodes {
		if !n.current() || !n.open {
			return fmt.Sprintf("%s does not take part", n.name)
		}
	}
	return ""
}
