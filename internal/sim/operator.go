package sim

import (
	"slices"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// configureSome changes what is in force for a queue, as policies do.
func (w *world) configureSome() {
	g := w.someGroup()
	c := g.ledger.config
	aspect := w.rng.IntN(11)
	w.change1(g, &c, aspect)
	w.event("configure queue aspect", int64(g.uid), int64(aspect))
	if err := c.Validate(); err != nil {
		w.broke("config", "%v", err)
	}
	g.proposeHere(&quorumq.Configure{Config: c})
}

// change1 changes one aspect of a configuration. A target of length 0 would never have room.
func (w *world) change1(g *group, c *quorumq.Config, aspect int) {
	r := w.rng
	switch aspect {
	case 0:
		c.MaxLength = orUnlimited(r.Int64N(40))
	case 1:
		c.MessageTTLMs = r.Int64N(4000) - 1
	case 2, 3:
		if g.place == 2 && !w.swarm.cycle {
			return // there are no targets
		}
		c.OnSwitch, c.BacklogLimit = quorumq.OnSwitch(r.IntN(3)), 0
		c.Overflow = quorumq.Overflow(r.IntN(3))
		c.DeadLetter = quorumq.DeadLetterAtMostOnce + quorumq.DeadLetterMode(r.IntN(2))
		if w.swarm.rules && r.IntN(4) == 0 {
			c.DeadLetter = quorumq.DeadLetterDisabled // the exchange is taken away
		}
		if c.DeadLetter == quorumq.DeadLetterAtLeastOnce && c.Overflow == quorumq.OverflowDropHead {
			c.BacklogLimit = 1 + r.Int64N(30)
		}
	case 4:
		c.ConsumerTimeoutMs = r.Int64N(3000)
	case 5:
		c.DeliveryLimit = r.Int64N(5) - 1
	case 6:
		c.Retry = quorumq.Retry{Type: quorumq.RetryAll + quorumq.RetryType(r.IntN(3)), MinMs: 1 + r.Int64N(500), MaxMs: 500 + r.Int64N(1500)}
	case 7:
		c.Victim, c.FairPriorities, c.ReturnToPlace = quorumq.Victim(r.IntN(3)), r.IntN(2) == 0, r.IntN(2) == 0
	case 9:
		c.Rules = quorumq.NewestRules
	case 8:
		c.MaxLengthTotal = orUnlimited(r.Int64N(60))
	default:
		c.SingleActive = !c.SingleActive
	}
}

// orUnlimited is for limits: 0 stands for none.
func orUnlimited(n int64) int64 {
	if n == 0 {
		return quorumq.Unlimited
	}
	return n
}

// configured follows a change of configuration.
func (l *ledger) configured(c *quorumq.Configure) {
	if c.Config.SingleActive && !l.config.SingleActive {
		clear(l.exempt)
		for k, held := range l.held {
			l.exempt[k] = len(held) > 0
		}
	}
	rules := max(l.config.Rules, c.Config.Rules)
	l.config = c.Config
	l.config.Rules = rules
	l.ttl[1] = c.Config.MessageTTLMs
}

// abandons reports whether the command drops dead letters of the backlog (DL-27).
func (l *ledger) abandons(cmd quorumq.Command, c *copied) bool {
	if _, is := cmd.(*quorumq.Configure); !is || c.dead.To != nil {
		return false
	}
	way := l.config.OnSwitch
	if way == quorumq.SwitchUnset {
		way = l.before.OnSwitch
	}
	return way == quorumq.SwitchDrop && l.before.DeadLetter == quorumq.DeadLetterAtLeastOnce && l.config.DeadLetter != quorumq.DeadLetterAtLeastOnce
}

// moveSome moves or deletes some messages that an operator sees (G-13).
func (w *world) moveSome() {
	g := w.someGroup()
	if g.leader < 0 {
		return
	}
	page, _, _ := g.reps[g.leader].m.q.Peek(nil, quorumq.PeekFrom{}, 20)
	if len(page) == 0 {
		return
	}
	from := w.rng.IntN(len(page))
	c := &quorumq.Move{To: w.destination(g)}
	for _, p := range page[from : from+1+w.rng.IntN(len(page)-from)] {
		c.Places = append(c.Places, p.Place)
		if ref, seen := g.ledger.places[p.Place]; seen && ref != p.Body {
			w.broke("G-13", "queue %s: at place %+v there was body %v, now it is %v", g.name, p.Place, ref, p.Body)
		}
		g.ledger.places[p.Place] = p.Body
	}
	w.event("move queue kind messages", int64(g.uid), int64(c.To.Kind), int64(len(c.Places)))
	at := w.someNode()
	if !w.swarm.repeats || at < 0 {
		g.proposeHere(c)
		return
	}
	e := w.nodes[at].end(g) // sent until it is answered; a repeat finds nothing where it looks
	e.ops = append(e.ops, &op{header: quorumq.AppendCommand(nil, c)})
}

// destination draws where messages are moved to.
func (w *world) destination(g *group) quorumq.Destination {
	kinds := 5
	if w.swarm.repeats {
		kinds++
	}
	switch w.rng.IntN(kinds) {
	case 5:
		return quorumq.Destination{Kind: quorumq.ToOriginExchange}
	case 0:
		return quorumq.Destination{Kind: quorumq.ToNowhere}
	case 1:
		return quorumq.Destination{Kind: quorumq.ToOrigin}
	case 2:
		return quorumq.Destination{Kind: quorumq.ToExchange, Name: exchangeOf(g.name)}
	default:
		return quorumq.Destination{Kind: quorumq.ToQueue, Name: queueNames[(g.place+1+w.rng.IntN(2))%len(queueNames)]}
	}
}

// routeMoved finds where a moved message goes, as package deadletter does.
func (w *world) routeMoved(v *catalog.View, to *quorumq.Destination, m *message.Message) routed {
	r := routed{msg: *m}
	name := to.Name
	switch to.Kind {
	case quorumq.ToExchange:
		r.msg.Exchange = name
		targets, err := v.Route(vhost, name, &catalog.Publication{Keys: r.msg.RoutingKeys}, nil)
		if err == nil {
			r.targets = targets
		}
		r.lost = len(targets) == 0
		return r
	case quorumq.ToOriginExchange:
		if len(m.Deaths) == 0 {
			r.lost = true
			return r
		}
		r.msg.Exchange = m.FirstDeath.Exchange
		for i := range m.Deaths {
			if d := &m.Deaths[i]; d.Queue == m.FirstDeath.Queue && d.Reason == m.FirstDeath.Reason {
				r.msg.RoutingKeys = d.RoutingKeys
			}
		}
		targets, err := v.Route(vhost, r.msg.Exchange, &catalog.Publication{Keys: r.msg.RoutingKeys}, nil)
		if err == nil {
			r.targets = targets
		}
		r.lost = len(targets) == 0
		return r
	case quorumq.ToOrigin:
		if len(m.Deaths) == 0 {
			r.lost = true
			return r
		}
		name = m.FirstDeath.Queue
	default:
	}
	if q, found := v.Queue(vhost, name); found {
		r.targets = append(r.targets, q.UID)
	}
	return r
}

// takes reports whether the command takes a copy off the queue for good; one whose time is over
// has expired before.
func (l *ledger) takes(cmd quorumq.Command, c *copied) bool {
	m, is := cmd.(*quorumq.Move)
	return is && m.To.Kind == quorumq.ToNowhere && !l.due(c) &&
		slices.ContainsFunc(m.Places, func(p quorumq.Place) bool { return l.places[p] == c.ref })
}

// operated judges a Move when all that it did is known: no more than it named, and as many as it reports.
func (l *ledger) operated(cmd quorumq.Command, r *quorumq.Reply) {
	m, is := cmd.(*quorumq.Move)
	if !is {
		l.judgeFreed(cmd, r)
		if l.taken > 0 {
			l.broke("G-13", "%d messages are moved by another command", l.taken)
		}
		return
	}
	gone := 0
	for _, p := range m.Places {
		if c := l.copies[l.places[p]]; c.movedAt == l.moves {
			gone++
		}
	}
	if uint64(l.taken) != r.Count || gone != l.taken {
		l.broke("G-13", "a Move says that it took %d messages: %d are gone, of these %d were named", r.Count, l.taken, gone)
	}
}

// retrySome makes delayed messages ready before their time (DR-6).
func (w *world) retrySome() { w.proposeSome(&quorumq.RetryDelayed{Limit: w.rng.Uint64N(5)}) }

// judgeFreed counts what a RetryDelayed has made ready: not what expired before it came to that.
func (l *ledger) judgeFreed(cmd quorumq.Command, r *quorumq.Reply) {
	n := uint64(0)
	for _, c := range l.freed {
		if c.state != ready && c.state != assigned && c.state != autoAcked {
			continue
		}
		n++
		if l.firstDue != 0 && c.dueBefore > l.firstDue {
			l.broke("DR-6", "body %v due at %d is ready before one that is due at %d", c.ref, c.dueBefore, l.firstDue)
		}
	}
	l.freed = l.freed[:0]
	if _, is := cmd.(*quorumq.RetryDelayed); is && n != r.Count {
		l.broke("DR-6", "%d messages are said to be ready, %d are", r.Count, n)
	}
}

// retriedDelayed follows it: those that were due first are ready.
func (l *ledger) retriedDelayed(r *quorumq.Reply) {
	page, _, _ := l.g.truth.q.Peek(nil, quorumq.PeekFrom{Part: quorumq.PartDelayed}, len(l.waiting)+1)
	l.firstDue = 0
	for i := range page {
		if l.firstDue == 0 || page[i].Due < l.firstDue {
			l.firstDue = page[i].Due
		}
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(c *copied) bool {
		if c.state != ready || c.due == 0 || slices.ContainsFunc(page, func(p quorumq.Peeked) bool { return p.Body == c.ref }) {
			return false
		}
		l.freed = append(l.freed, c)
		c.due, c.dueBefore = 0, c.due
		l.begin(c)
		if c.acquired == 0 {
			c.at = l.now
		}
		return true
	})
	if int(r.Left) != len(page) {
		l.broke("DR-6", "%d messages are said to be left, %d are", r.Left, len(page))
	}
}
