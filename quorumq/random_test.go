package quorumq

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quorate/quorate/id"
)

var (
	seedFlag     = flag.Uint64("seed", 0, "seed of the random test; 0: several fixed ones")
	commandsFlag = flag.Int("commands", 0, "commands per seed of the random test; 0: 30000 over all seeds, 6000 with -short")
)

// TestRandomAgainstModel sends the same random commands to a queue, to one that is restored from
// its snapshot before each command, and to the naive model. Replies, effects and state must agree,
// and the snapshots must be equal.
func TestRandomAgainstModel(t *testing.T) {
	seeds := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	total := 30_000
	if testing.Short() {
		total = 6_000
	}
	if *seedFlag != 0 {
		seeds = []uint64{*seedFlag}
	}
	n := total / len(seeds)
	if *commandsFlag != 0 {
		n = *commandsFlag
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			t.Logf("repeat with -seed %d -commands %d", seed, n)
			runRandom(t, &generator{Rand: rand.New(rand.NewPCG(seed, 0)), index: 1, scale: 1}, n)
		})
	}
}

// TestDeepQueueAgainstModel does the same with many messages, so that chunks fill, empty and are
// rewritten.
func TestDeepQueueAgainstModel(t *testing.T) {
	n := 150
	if testing.Short() {
		n = 30
	}
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			runRandom(t, &generator{Rand: rand.New(rand.NewPCG(seed, 1)), index: 1, scale: 40}, n)
		})
	}
}

// TestDrainDeleteAgainstModel does the same with queues that are emptied half-way.
func TestDrainDeleteAgainstModel(t *testing.T) {
	seeds, n := uint64(20), 500
	if testing.Short() {
		seeds, n = 10, 200
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			runRandom(t, &generator{Rand: rand.New(rand.NewPCG(seed, 2)), index: 1, scale: 1, drainDeleteAt: n / 2}, n)
		})
	}
}

// TestSealAgainstModel does the same with queues whose deletion is decided when they happen to be empty, or to have expired.
func TestSealAgainstModel(t *testing.T) {
	seeds, n := uint64(10), 500
	if testing.Short() {
		seeds, n = 10, 200
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			runRandom(t, &generator{Rand: rand.New(rand.NewPCG(seed, 3)), index: 1, scale: 1, sealFrom: n / 2}, n)
		})
	}
}

// figuresEvery is after how many commands the whole state is compared with the model, because that
// takes most of the time.
const figuresEvery = 8

// randomUID is the queue of the random test.
const randomUID id.QueueUID = 1024

func runRandom(t *testing.T, g *generator, n int) {
	c := g.config()
	q, restored, m := New(randomUID, c), New(randomUID, c), newModel(c)
	g.q = q
	for i := range n {
		cmd := g.command()
		if g.drainDeleteAt > 0 && (i == g.drainDeleteAt || i > g.drainDeleteAt && g.one(50)) {
			cmd = &DrainDelete{}
		}
		if g.sealFrom > 0 && i > g.sealFrom && g.one(20) {
			cmd = &Seal{IfUnused: g.one(2), IfExpired: g.one(2)}
		}
		joins := g.joins
		meta := g.meta(cmd)
		wantReply, wantEffects := m.apply(meta, cmd)
		want := comparable(wantReply, wantEffects)
		describe := func() string { return fmt.Sprintf("command %d: %T%+v at %+v", i, cmd, cmd, meta) }
		if got := comparable(q.Apply(meta, cmd)); got != want {
			t.Fatalf("%s\nmodel:\n%s\nqueue:\n%s\nconfig %+v", describe(), want, got, q.config)
		}
		if !joins { // a snapshot is taken between entries
			restored = restoreCopy(t, restored)
		}
		if got := comparable(restored.Apply(meta, cmd)); got != want {
			t.Fatalf("%s\nmodel:\n%s\nrestored queue:\n%s", describe(), want, got)
		}
		snapshot := q.AppendSnapshot(nil)
		if !bytes.Equal(snapshot, restored.AppendSnapshot(nil)) {
			t.Fatalf("%s: snapshots differ", describe())
		}
		if !checked {
			if err := q.check(); err != nil {
				t.Fatalf("%s: %v", describe(), err)
			}
		}
		if i%figuresEvery != 0 {
			continue
		}
		if want, got := m.figures(), figures(q); want != got {
			t.Fatalf("%s\nmodel:\n%s\nqueue:\n%s", describe(), want, got)
		}
	}
	o := q.Overview()
	t.Logf("enqueued %d, refused %d, delivered %d, settled %d, returned %d, expired %d, dead-lettered %v, dedup %d",
		o.Enqueued, o.Refused, o.Delivered, o.Settled, o.ReturnedTotal, o.Expired, o.DeadLettered, o.Dedup)
}

// comparable writes an answer as text. It sorts the releases, because their order means nothing.
func comparable(r Reply, e Effects) string {
	e.Release = slices.Clone(e.Release)
	slices.SortFunc(e.Release, compareRefs)
	return answer(r, e)
}

// figures writes everything that can be asked of a queue.
func figures(q *Queue) string {
	o := q.Overview()
	s := fmt.Sprintf("ready %d %d, unsettled %d, backlog %d %d, delayed %d %d until %d\n",
		o.Ready, o.ReadyBytes, o.Unsettled, o.Backlog, o.BacklogBytes, o.Delayed, o.DelayedBytes, o.NextDelayed)
	for _, session := range q.subs.order {
		for _, c := range session.consumers {
			s += formatLines("", q.Assigned(nil, c.key, 0))
		}
	}
	for _, d := range q.Backlog(nil, 0, 1<<30) {
		s += formatDiscarded("backlog", d)
	}
	for part := PartReady; part <= PartBacklog; part++ {
		s += formatPeeked(peekAll(q, PeekFrom{Part: part}, 3))
	}
	return s + fmt.Sprintln(slices.Collect(q.Live()))
}

func (q *model) figures() string {
	var ready, unsettled, backlogged, delayed uint64
	var due Time
	for _, m := range append(slices.Clone(q.ready), q.back...) {
		ready += uint64(m.size)
	}
	for _, m := range q.delayed {
		delayed += uint64(m.size)
		due = sooner(due, m.due)
	}
	for _, d := range q.backlog {
		backlogged += uint64(q.sizes[d.Body])
	}
	lines := ""
	q.sortConsumers()
	for _, c := range q.consumers {
		unsettled += uint64(len(c.held))
		for _, h := range c.held {
			lines += formatDelivery(h.m.delivery(c.Consumer, h.id))
		}
	}
	for _, d := range q.backlog {
		lines += formatDiscarded("backlog", d)
	}
	var live []BodyRef
	for r := range q.live() {
		live = append(live, r)
	}
	slices.SortFunc(live, compareRefs)
	return fmt.Sprintf("ready %d %d, unsettled %d, backlog %d %d, delayed %d %d until %d\n",
		len(q.ready)+len(q.back), ready, unsettled, len(q.backlog), backlogged, len(q.delayed), delayed, due) +
		lines + formatPeeked(q.peekReady()) + formatPeeked(q.peekUnsettled()) + formatPeeked(q.peekBacklog()) + fmt.Sprintln(live)
}

// generator makes random commands, most of which are valid.
type generator struct {
	*rand.Rand
	q             *Queue
	index         uint64
	now           Time
	epochs        [3]id.Epoch
	closed        [3]uint64 // sessions below are closed, in the newest epoch mostly
	drainDeleteAt int       // number of the command that empties the queue; 0: none
	sealFrom      int       // number of the command from which on some seal the queue; 0: none
	scale         int       // 1, or how many times more messages there are
	at            Meta      // of the newest command
	slot          uint32    // the first that is free of its entry
	joins         bool      // the next command is of the same entry
}

func (g *generator) one(n int) bool { return g.IntN(n) == 0 }

// meta returns the place of a command: its own entry, or the entry of the command before it.
func (g *generator) meta(c Command) Meta {
	if g.joins {
		g.at.FirstSlot = g.slot
	} else {
		g.at = g.nextEntry()
	}
	g.slot = g.at.FirstSlot + uint32(len(bodiesOf(g.at, c)))
	g.joins = g.one(3)
	return g.at
}

func (g *generator) nextEntry() Meta {
	g.index++
	if g.one(2) {
		g.now += Time(g.IntN(12))
	}
	if g.one(300) {
		g.now += 200
	}
	m := Meta{Index: g.index, FirstSlot: uint32(g.IntN(3)), Now: g.now}
	if g.one(10) {
		m.Now -= Time(g.IntN(30)) // a leader whose clock is behind
	}
	return m
}

func (g *generator) config() Config {
	pick := func(vs ...int64) int64 {
		v := vs[g.IntN(len(vs))]
		if v > 0 {
			v *= int64(g.scale * g.scale)
		}
		return v
	}
	return Config{
		MaxLength:             pick(-1, -1, 0, 3, 10, 20),
		MaxLengthBytes:        pick(-1, -1, 20, 100),
		Overflow:              Overflow(g.IntN(3)),
		MessageTTLMs:          pick(-1, -1, 0, 5, 40),
		DeadLetter:            DeadLetterMode(g.IntN(3)),
		DeliveryLimit:         pick(-1, 0, 1, 20),
		DisconnectedTimeoutMs: pick(0, 20, 100),
		ConsumerTimeoutMs:     pick(0, 0, 10, 300),
		ExpiresMs:             pick(-1, -1, 5, 40),
		ExpiresIfEmpty:        g.one(2),
		SingleActive:          g.one(3),
		AutoDelete:            g.one(3),
		MaxLengthTotal:        pick(-1, -1, -1, 6, 20),
		Victim:                Victim(g.IntN(3)),
		FairPriorities:        g.one(3),
		ReturnToPlace:         g.one(3),
		Retry:                 g.retry(),
		BacklogLimit:          pick(0, 1, 5),
		OnSwitch:              OnSwitch(g.IntN(3)),
		Rules:                 []Rules{RulesFirst, RulesThird, RulesSeventh}[g.IntN(3)],
	}
}

func (g *generator) retry() Retry {
	r := Retry{
		Type: RetryType(g.IntN(5)), Backoff: Backoff(g.IntN(3)), JitterPercent: uint8(g.IntN(3) * 50),
		MinMs: int64(1 + g.IntN(10)), MaxMs: int64(g.IntN(60)), Steps: uint8(g.IntN(4)),
	}
	for i := range r.Steps {
		r.StepsMs[i] = int64(g.IntN(40))
	}
	return r
}

// delay is none in most cases.
func (g *generator) delay() (d Delay) {
	switch g.IntN(12) {
	case 0:
		d.Ms = int64(1 + g.IntN(40*g.scale))
	case 1:
		d.At = max(g.now+Time(g.IntN(50*g.scale)-5), 0)
	}
	return d
}

func (g *generator) node() (id.NodeID, id.Epoch) {
	i := g.IntN(3)
	if g.one(150) {
		g.epochs[i]++
	}
	e := g.epochs[i] + 1
	if e > 1 && g.one(30) {
		e--
	}
	return id.NodeID([]string{"a", "b", "c"}[i]), e
}

func (g *generator) session() SessionKey {
	n, e := g.node()
	s := g.closed[n[0]-'a'] + uint64(g.IntN(2))
	if s > 0 && g.one(30) {
		s--
	}
	return SessionKey{Node: n, Epoch: e, Session: s}
}

// consumer returns a known consumer in most cases, and rarely any other.
func (g *generator) consumer() (ConsumerKey, MsgID) {
	if len(g.q.subs.order) > 0 && !g.one(20) {
		s := g.q.subs.order[g.IntN(len(g.q.subs.order))]
		if len(s.consumers) > 0 {
			c := s.consumers[g.IntN(len(s.consumers))]
			return c.key, c.last
		}
	}
	return ConsumerKey{SessionKey: g.session(), Tag: uint32(g.IntN(3))}, 3
}

func (g *generator) ranges(last MsgID) []MsgIDRange {
	rs := make([]MsgIDRange, 1+g.IntN(3))
	for i := range rs {
		first := MsgID(1)
		if back := MsgID(g.IntN(8 * g.scale)); last > back {
			first = last - back
		}
		rs[i] = MsgIDRange{First: first, Last: first + MsgID(g.IntN(3*g.scale))}
		if g.one(20) {
			rs[i].First = 1
		}
	}
	return rs
}

func (g *generator) messages() []NewMessage {
	ms := make([]NewMessage, g.IntN(5*g.scale))
	for i := range ms {
		ms[i] = NewMessage{Size: uint32(g.IntN(15)), TTLMs: Unlimited, Priority: DefaultPriority}
		if g.one(3) {
			ms[i].TTLMs = int64(g.IntN(60 * g.scale))
		}
		if g.one(3) {
			ms[i].Priority = uint8(g.IntN(40))
		}
		if g.one(25) {
			ms[i].Size = 110
		}
	}
	return ms
}

func (g *generator) enqueue() Command {
	n, e := g.node()
	next := Seq(1)
	if known := g.q.nodes.byID[n]; known != nil && known.epoch == e {
		next = known.next
	}
	c := &Enqueue{Enqueuer: EnqueuerKey{Node: n, Epoch: e}, First: next, Messages: g.messages()}
	if g.one(6) { // a repeat
		c.First -= Seq(g.IntN(int(min(next, 5))))
	}
	if g.one(40) {
		c.First++
	}
	if back := Seq(g.IntN(6)); next > back {
		c.Answered = next - back - 1
	}
	units := g.one(4)
	for i := range c.Messages {
		c.Messages[i].Delay = g.delay()
		if g.one(25) {
			c.Messages[i].Size = VoidSize
		}
		c.Messages[i].Joined = units && g.one(2) && i < len(c.Messages)-1
	}
	return c
}

func (g *generator) transfer() Command {
	source := []id.QueueUID{2000, 2001, randomUID}[g.IntN(3)]
	settled := Seq(0)
	if s := g.q.transfers[source]; s != nil {
		settled = s.settled
	}
	c := &Transfer{Source: source, Settled: settled + Seq(g.IntN(3))}
	if source == randomUID { // it knows its own watermark
		settled = g.q.BacklogSettled()
		c.Settled = settled
	}
	for _, m := range g.messages() {
		if m.Size != VoidSize {
			c.DeadLetters = append(c.DeadLetters, DeadLetter{Seq: settled + 1 + Seq(g.IntN(12*g.scale)), NewMessage: m})
		}
	}
	return c
}

func (g *generator) command() Command {
	switch p := g.IntN(100); {
	case p < 30:
		return g.enqueue()
	case p < 36:
		return g.transfer()
	case p < 46:
		k := ConsumerKey{SessionKey: g.session(), Tag: uint32(1 + g.IntN(2))}
		return &Checkout{
			Consumer: k, Prefetch: uint32(g.IntN(5)), Credit: g.one(3), Limit: MsgID(g.IntN(40 * g.scale)),
			AutoAck: g.scale == 1 && g.one(6), Priority: int32(g.IntN(3)), Exclusive: g.one(30),
			HasTimeout: g.one(6), TimeoutMs: int64(g.IntN(3) * 100),
		}
	case p < 48:
		k, _ := g.consumer()
		return &Cancel{Consumer: k, Requeue: g.one(2)}
	case p < 52:
		k, last := g.consumer()
		if g.one(3) {
			return &Extend{Consumer: k, TimeoutMs: int64(1 + g.IntN(600)), Ranges: g.ranges(last)}
		}
		return &Credit{Consumer: k, Limit: last + MsgID(g.IntN(4*g.scale))}
	case p < 65:
		k, last := g.consumer()
		if g.one(5) {
			return g.transact(k, last)
		}
		return &Settle{Consumer: k, Ranges: g.ranges(last)}
	case p < 73:
		k, last := g.consumer()
		return &Requeue{Consumer: k, Ranges: g.ranges(last), Failed: g.one(2), HasAnnotations: g.one(4), Delay: g.delay()}
	case p < 78:
		k, last := g.consumer()
		return &Discard{Consumer: k, Ranges: g.ranges(last), Failed: g.one(2), HasAnnotations: g.one(4)}
	case p < 84:
		return &Get{Session: g.session(), AutoAck: g.one(3)}
	case p < 88:
		return &Expire{}
	case p < 89:
		return g.move()
	case p < 92:
		settled := g.q.BacklogSettled()
		first := max(settled+Seq(g.IntN(6)), 1)
		return &BacklogSettle{Ranges: []SeqRange{{First: first, Last: first + Seq(g.IntN(12*g.scale))}}}
	default:
		return g.rare(p - 92)
	}
}

// transact names one message that its consumer may hold, or any other.
func (g *generator) transact(k ConsumerKey, last MsgID) Command {
	c := &Transact{Consumer: k, Ranges: g.ranges(last)}
	if g.one(4) {
		return c
	}
	at := max(last, 1)
	if g.one(2) && at > 1 {
		at--
	}
	c.Ranges = []MsgIDRange{{First: at, Last: at}}
	for i := range g.IntN(3) {
		c.Outputs = append(c.Outputs, Output{Exchange: []string{"", "x", "y"}[g.IntN(3)], Size: uint32(5 + i)})
	}
	return c
}

// move takes some messages that are ready, and some that have already gone.
func (g *generator) move() Command {
	c := &Move{To: Destination{Kind: DestinationKind(g.IntN(5))}}
	switch c.To.Kind {
	case ToQueue:
		c.To.Name = "q"
	case ToExchange:
		c.To.Name, c.To.HasKey = "x", g.one(2)
		if c.To.HasKey {
			c.To.Key = "k"
		}
	default:
	}
	page, _, _ := g.q.Peek(nil, PeekFrom{Skip: uint64(g.IntN(6))}, 10*g.scale)
	for i := range page {
		if g.one(2) {
			c.Places = append(c.Places, page[i].Place)
		}
	}
	if g.one(4) {
		c.Places = append(c.Places, Place{Order: uint64(32 + g.IntN(1000)), Return: uint64(g.IntN(3))})
	}
	return c
}

// unsent returns some messages that a consumer of the session may hold, or none.
func (g *generator) unsent(k SessionKey) (u Unsent) {
	if g.one(2) {
		return u
	}
	u.Tag = uint32(g.IntN(3))
	last, _ := g.q.LastMsgID(ConsumerKey{SessionKey: k, Tag: u.Tag})
	for range 1 + g.IntN(2) {
		first := max(last, 8) - MsgID(g.IntN(8))
		u.Ranges = append(u.Ranges, MsgIDRange{First: first, Last: first + MsgID(g.IntN(5))})
	}
	return u
}

func (g *generator) rare(p int) Command {
	n, e := g.node()
	switch p {
	case 0:
		k := g.session()
		if closed := &g.closed[k.Node[0]-'a']; k.Session == *closed {
			*closed++
		}
		return &SessionClosed{Session: k, Unsent: g.unsent(k)}
	case 1:
		return &NodeDown{Node: n, Epoch: e}
	case 2, 3:
		return &NodeUp{Node: n, Epoch: e}
	case 4:
		if g.one(4) {
			return &Purge{}
		}
		if g.one(4) {
			return &Renew{}
		}
		if g.one(8) {
			return &Renumber{}
		}
		if g.one(8) {
			return &ForgetSources{Sources: []id.QueueUID{2000 + id.QueueUID(g.IntN(3))}}
		}
		if g.one(2) {
			return &RetryDelayed{Limit: uint64(g.IntN(4 * g.scale))}
		}
		return &Expire{}
	case 5:
		return &Configure{Config: g.config()}
	default:
		return &Lead{Node: n, Term: g.index}
	}
}
