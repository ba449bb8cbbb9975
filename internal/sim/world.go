package sim

import (
	"encoding/binary"
	"math/rand/v2"
	"strconv"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// startMs is when a run starts, in ms; far enough from 0 for clocks that are behind.
const startMs = 1_000_000

// vhost holds all queues of a run.
const vhost = catalog.DefaultVHost

// queueNames is the chain: dead letters go from each to the next.
var queueNames = [3]string{"a", "b", "c"} //nolint:gochecknoglobals // a constant in all but name

func exchangeOf(queue string) string { return "dlx." + queue }

// world is all there is in a run.
type world struct {
	cfg    Config
	swarm  swarm
	rng    *rand.Rand
	trace  trace
	result Result
	broken *Violation
	now    int64 // ms
	quiet  bool  // faults have ended
	acts   []act
	total  int // of the weights in acts

	nodes  [members]*node
	pairs  [members][members]pair
	frames [members][members][]frame // from, to
	onWay  int

	catalog   *catalog.Catalog
	catalogAt uint64
	groups    []*group // in the order of their making, deleted ones too
	byUID     map[id.QueueUID]*group

	producers []*producer
	consumers []*consumer
	channels  int
	notes     int64

	clockRNG    *rand.Rand // all chance of clocks, so that seeds mean the same without them
	viewRNG     *rand.Rand // the same of views that lag
	heartbeatAt int64      // ms
	wrong       int        // the node whose clocks are wrong; -1: none
	metas       []meta
	msgs        []clientMessage

	transactions []*transaction
}

// newWorld draws from several sources of chance, so that new acts leave the course of old seeds as it was.
func newWorld(c Config) *world {
	w := &world{
		cfg: c, rng: rand.New(rand.NewPCG(c.Seed, 0x5157)), now: startMs,
		catalog: catalog.New(), byUID: make(map[id.QueueUID]*group),
	}
	w.trace.sum = fnvOffset
	w.swarm = drawSwarm(w.rng)
	if !c.Basic {
		w.swarm.drawMore(rand.New(rand.NewPCG(c.Seed, 0x5158)))
	}
	w.viewRNG = rand.New(rand.NewPCG(c.Seed, 0x515a))
	w.clockRNG, w.wrong = rand.New(rand.NewPCG(c.Seed, 0x5159)), -1
	if !c.Basic && !c.Steady {
		w.swarm.drawClocks(w.clockRNG)
		w.swarm.drawViews(w.viewRNG)
	}
	switch c.Fault {
	case FaultWallClock, FaultWallBack, FaultLonelyClock, FaultHastyClock:
		w.swarm.stressClocks()
	case FaultEarlyService, FaultOldViews:
		w.swarm.stressViews()
	default:
	}
	// Those two show among leaders that last.
	if c.Fault != NoFault && c.Fault != FaultOpenSession && c.Fault != FaultEarlyForwarding {
		w.swarm.stress()
	}
	if c.Fault == FaultOpenSession { // what is left with a session must not time out
		w.swarm.patient()
	}
	for i := range w.nodes {
		w.nodes[i] = &node{
			w: w, idx: i, name: id.NodeID("n" + strconv.Itoa(i)), up: true, epoch: 1, ends: make(map[*group]*end),
			skew: w.rng.Int64N(2*w.swarm.skew+1) - w.swarm.skew,
		}
		if w.swarm.clocks {
			w.nodes[i].clocks = newClocks(w, w.nodes[i].skew/4)
			w.nodes[i].clocks.start()
		}
		w.change(&catalog.RegisterNode{ID: w.nodes[i].name, Address: "h:1", ClientAddress: "h:2", Epoch: 1})
	}
	for place := range queueNames {
		w.change(&catalog.DeclareExchange{VHost: vhost, Name: exchangeOf(queueNames[place]), Type: catalog.ExchangeFanout, Durable: true})
		if w.swarm.rules {
			w.change(&catalog.DeclareExchange{VHost: vhost, Name: otherExchangeOf(queueNames[place]), Type: catalog.ExchangeFanout, Durable: true})
		}
		w.declare(place)
	}
	for place := range queueNames {
		w.bindAll(place)
		if w.swarm.rules {
			w.setRule(place, w.standing(place))
		}
	}
	for _, n := range w.nodes {
		n.view = w.catalog.View()
		n.stored = stored{view: n.view, proven: n.reading(), known: true}
	}
	w.hireClients()
	w.acts = w.allActs()
	for i := range w.acts {
		w.total += w.acts[i].weight
	}
	return w
}

// hireClients makes the clients that the swarm asks for.
func (w *world) hireClients() {
	for i := range w.swarm.producers + w.swarm.plain {
		p := &producer{w: w, node: -1, channel: w.newChannel()}
		if i < w.swarm.producers {
			p.id = new(quorumq.ProducerID)
			binary.BigEndian.PutUint64(p.id[:], uint64(i+1))
		}
		if w.rng.IntN(5) == 0 {
			p.place = w.rng.IntN(len(queueNames))
		}
		w.producers = append(w.producers, p)
	}
	for place := range queueNames {
		for i := range w.swarm.consumers {
			c := &consumer{w: w, place: place, node: -1, autoAck: w.swarm.autoAck && i == 0, credit: w.swarm.credit && i == 1}
			if w.swarm.own && w.rng.IntN(2) == 0 {
				c.timeout = 400 + w.rng.Int64N(2600) // longer than a decision takes when all has healed
			}
			w.consumers = append(w.consumers, c)
		}
		if w.swarm.gets {
			w.consumers = append(w.consumers, &consumer{w: w, place: place, node: -1, gets: true})
		}
	}
}

func (w *world) newChannel() int {
	w.channels++
	return w.channels
}

// nodeOf returns the first node for an unknown name.
func (w *world) nodeOf(name id.NodeID) *node {
	for _, n := range w.nodes {
		if n.name == name {
			return n
		}
	}
	return w.nodes[0]
}

// groupOf returns the queue at this place of the chain as the node knows it, or nil.
func (n *node) groupOf(place int) *group {
	rec, found := n.view.Queue(vhost, queueNames[place])
	if !found {
		return nil
	}
	if g := n.w.byUID[rec.UID]; !g.deleted {
		return g
	}
	return nil
}

// change changes the catalog; nodes see it later.
func (w *world) change(c catalog.Command) catalog.Reply {
	w.catalogAt++
	r := w.catalog.Apply(w.catalogAt, w.now, c)
	if r.Err != nil {
		w.broke("catalog", "%v", r.Err)
	}
	return r
}

// declare makes the queue at this place.
func (w *world) declare(place int) {
	var all []id.NodeID
	for _, n := range w.nodes {
		all = append(all, n.name)
	}
	r := w.change(&catalog.DeclareQueue{
		VHost: vhost, Name: queueNames[place], Type: catalog.QueueQuorum, Durable: true, Members: all, Leader: all[0],
	})
	w.event("declare place queue", int64(place), int64(r.UID))
	if w.byUID[r.UID] != nil {
		w.broke("Q-16", "a new queue is number %v, which another one was", r.UID)
	}
	g := newGroup(w, r.UID, place)
	w.groups = append(w.groups, g)
	w.byUID[r.UID] = g
}

// delete removes the queue at this place, and all that is in it.
func (w *world) delete(g *group) {
	w.event("delete queue", int64(g.uid))
	w.change(&catalog.DeleteQueue{VHost: vhost, Name: g.name})
	g.deleted = true
	for i, r := range g.reps {
		r.believes, r.leads, r.fwd = false, false, nil
		if e := w.nodes[i].ends[g]; e != nil {
			e.close()
			delete(w.nodes[i].ends, g)
		}
	}
	g.pending = nil
	for _, p := range w.producers {
		if p.group == g {
			p.giveUp()
		}
	}
}

// targetsOf returns the places that dead letters of a queue go to.
func (w *world) targetsOf(place int) []int {
	switch {
	case place == 0 && w.swarm.fanout:
		return []int{1, 2}
	case place < 2:
		return []int{place + 1}
	case w.swarm.cycle:
		return []int{0}
	default:
		return nil
	}
}

// bindAll binds the targets of a queue's dead letters, as far as they are there.
func (w *world) bindAll(place int) {
	for _, t := range w.targetsOf(place) {
		if w.alive(t) != nil {
			w.bind(place, t)
		}
	}
	if other := (place + 2) % len(queueNames); w.swarm.rules && w.alive(other) != nil {
		w.change(&catalog.Bind{VHost: vhost, Source: otherExchangeOf(queueNames[place]), Destination: queueNames[other]})
	}
}

func (w *world) bind(place, target int) {
	w.change(&catalog.Bind{VHost: vhost, Source: exchangeOf(queueNames[place]), Destination: queueNames[target]})
}

func (w *world) unbind(place, target int) {
	w.change(&catalog.Unbind{VHost: vhost, Source: exchangeOf(queueNames[place]), Destination: queueNames[target]})
}

// alive returns the queue at a place, nil if it is deleted.
func (w *world) alive(place int) *group {
	for _, g := range w.groups {
		if g.place == place && !g.deleted {
			return g
		}
	}
	return nil
}

// agreed returns the index of the catalog that all nodes have seen, 0 if one is behind.
func (w *world) agreed() uint64 {
	for _, n := range w.nodes {
		if n.view.Index() != w.catalogAt {
			return 0
		}
	}
	return w.catalogAt
}
