package deadletter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// routed is a discarded message as it is forwarded, and its targets.
type routed struct {
	msg     message.Message // rewritten
	targets []id.QueueUID   // without cyclic ones; ascending
	cyclic  []id.QueueUID   // those left out (DL-41)
	cause   Cause           // why there are no targets
	text    string          // same, for people
	key     string          // names what a warning is given once for
	bytes   int             // of the message as read
}

// resolver routes the discarded messages of one source, one after another, and has the room for
// the one at hand: to route one more allocates little. It belongs to one goroutine.
type resolver struct {
	rt    Router
	src   Source
	view  *catalog.View
	rec   *catalog.QueueRecord // of the source; nil: the view has none
	rule  Rule
	read  message.Message
	pub   catalog.Publication
	way   routed
	found []id.QueueUID
}

// look takes a view up, and the rule that is in force with it.
func (k *resolver) look(v *catalog.View) {
	if v == k.view {
		return
	}
	k.view, k.rec = v, nil
	if rec, ok := v.QueueByUID(k.src.UID()); ok {
		k.rec, k.rule = rec, k.rt.Rule(v, rec)
	}
}

// route reads a discarded message, rewrites it and finds its targets by the view
// (DL-23, DL-36, DL-41). What it returns is valid until the next call.
func (k *resolver) route(d *quorumq.Discarded) *routed {
	k.way = routed{}
	if k.rec == nil {
		k.way.cause, k.way.text = CauseDisabled, "the source queue is being deleted"
		return &k.way
	}
	if cause, text := barred(k.view, k.rec, k.rule, d); cause != CauseNone {
		k.way.cause, k.way.key, k.way.text = cause, k.rule.Exchange, text
		return &k.way
	}
	size, err := read(&k.read, k.src, d)
	if err != nil {
		k.way.cause, k.way.text = CauseUnreadable, "a stored message cannot be read: "+err.Error()
		return &k.way
	}
	k.routeMessage(d, &k.read)
	k.way.bytes = size
	return &k.way
}

// barred reports why no message at all can be forwarded.
func barred(v *catalog.View, rec *catalog.QueueRecord, rule Rule, d *quorumq.Discarded) (Cause, string) {
	if d.To != nil {
		return CauseNone, ""
	}
	if !rule.Enabled {
		return CauseDisabled, "the queue has no dead-letter exchange any more"
	}
	if _, ok := v.Exchange(rec.VHost, rule.Exchange); !ok {
		return CauseNoExchange, fmt.Sprintf("the dead-letter exchange %q does not exist; declare it", rule.Exchange)
	}
	return CauseNone, ""
}

// routeMessage finds the targets of a message that was read.
func (k *resolver) routeMessage(d *quorumq.Discarded, m *message.Message) {
	k.way.targets = k.found[:0]
	if d.To != nil {
		k.routeMoved(d, m)
	} else {
		k.routeDead(d, m)
	}
	k.found = k.way.targets
}

// routeDead rewrites a dead letter and finds its targets.
func (k *resolver) routeDead(d *quorumq.Discarded, m *message.Message) {
	r, v, rec, rule := &k.way, k.view, k.rec, &k.rule
	r.msg = Rewrite(m, Discard{
		Queue: rec.Name, Reason: d.Reason, NowMs: int64(d.At), DeliveryCount: d.DeliveryCount, AcquiredCount: d.AcquiredCount,
		Exchange: rule.Exchange, RoutingKey: rule.RoutingKey, HasRoutingKey: rule.HasRoutingKey,
	})
	if n := Hops(r.msg.Deaths); rule.MaxHops > 0 && n > rule.MaxHops {
		r.cause = CauseMaxHops
		r.text = fmt.Sprintf("the message has died %d times, x-dead-letter-max-hops is %d; raise it, or purge the backlog", n, rule.MaxHops)
		return
	}
	if !k.targets(rule.Exchange, d) {
		r.cause, r.key = CauseUnroutable, rule.Exchange+"\x00"+r.msg.PrimaryKey()
		r.text = fmt.Sprintf("the dead-letter exchange %q routes key %q to no queue; bind one", rule.Exchange, r.msg.PrimaryKey())
		return
	}
	r.targets, r.cyclic = rule.Targets(v, r.targets, r.msg.Deaths)
	if len(r.targets) == 0 {
		r.cause, r.key = CauseCycle, deathQueues(r.msg.Deaths)
		r.text = fmt.Sprintf("every target of exchange %q would make the message go round without a consumer; "+
			"its deaths: %s; x-dead-letter-cycle = allow lets it", rule.Exchange, r.key)
	}
}

// Targets returns those of the queues that an exchange routes a dead letter to that are to have it, and those that
// may not, as it would go round (DL-41). deaths are those of the message, this one too. It reuses routed.
func (r *Rule) Targets(v *catalog.View, routed []id.QueueUID, deaths []message.Death) (targets, cyclic []id.QueueUID) {
	targets = slices.DeleteFunc(routed, func(uid id.QueueUID) bool {
		q, ok := v.QueueByUID(uid)
		if ok && !r.AllowCycles && Cyclic(deaths, q.Name) {
			cyclic = append(cyclic, uid)
			return true
		}
		return !ok
	})
	return targets, cyclic
}

// targets routes the message at hand; false if it goes to no queue.
func (k *resolver) targets(exchange string, d *quorumq.Discarded) bool {
	k.pub = Publication(k.rt, k.rec, d, &k.way.msg)
	var err error
	k.way.targets, err = k.view.Route(k.rec.VHost, exchange, &k.pub, k.way.targets)
	return err == nil && len(k.way.targets) > 0
}

// Publication returns the properties by which a dead letter is routed, as it will arrive.
func Publication(rt Router, rec *catalog.QueueRecord, d *quorumq.Discarded, m *message.Message) catalog.Publication {
	return catalog.Publication{
		Keys: m.RoutingKeys, Headers: m.Headers, Dead: m, // EX-10
		Properties: &m.Properties, Chance: chance(rec.UID, d.Body), Alternate: rt.AlternateExchange,
	}
}

// chance decides where the dead letter goes when an exchange takes any of its bindings. It is
// the dead letter's own, so that a repeat goes where the first try went (DL-25).
func chance(source id.QueueUID, body quorumq.BodyRef) uint64 {
	h := uint64(source)
	for _, n := range [...]uint64{body.Index, uint64(body.Slot)} {
		h = (h ^ n) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	return h
}

// read reads the stored message with the annotations of its discard (DL-11, DEL-11), and
// returns how many bytes that took.
func read(m *message.Message, src Source, d *quorumq.Discarded) (int, error) {
	b, err := src.Body(d.Body)
	if err != nil {
		return 0, err
	}
	if err := message.DecodeInto(m, b); err != nil {
		return 0, err
	}
	if d.Annotations == (quorumq.BodyRef{}) {
		return len(b), nil
	}
	a, err := src.Body(d.Annotations)
	if err != nil {
		return 0, err
	}
	if _, err := m.Annotate(a); err != nil {
		return 0, err
	}
	return len(b) + len(a), nil
}

// deathQueues shows the way of a dead letter, the newest death first.
func deathQueues(deaths []message.Death) string {
	var b strings.Builder
	for i := range deaths {
		if i > 0 {
			b.WriteString(" ← ")
		}
		b.WriteString(deaths[i].Queue + " (" + deaths[i].Reason + ")")
	}
	return b.String()
}

// encode returns the stored form and what the target's machine needs of it. A dead letter has
// no TTL of its own any more (DL-35); a moved message has. Its level is each target's own
// matter: see levelAt.
func (r *routed) encode() (quorumq.NewMessage, []byte) {
	const deathBytes = 256 // a guess for one more death; too small costs a copy
	nm := quorumq.NewMessage{Size: uint32(len(r.msg.Body)), TTLMs: quorumq.Unlimited}
	if r.msg.Expiration != "" {
		if ms, err := message.ParseExpiration(r.msg.Expiration); err == nil {
			nm.TTLMs = ms
		}
	}
	return nm, message.Append(make([]byte, 0, r.bytes+deathBytes), &r.msg)
}

// levelAt returns the level of a dead letter that asks for a priority in a target (PR-1).
func levelAt(v *catalog.View, target id.QueueUID, asked int16) uint8 {
	q, ok := v.QueueByUID(target)
	if !ok {
		return quorumq.DefaultPriority
	}
	return q.Priorities().Level(asked)
}
