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

// routed is a discarded message as it goes on, and where to.
type routed struct {
	msg     message.Message // rewritten
	targets []id.QueueUID   // without cyclic ones; ascending
	cause   Cause           // why there are no targets
	text    string          // same, for people
	key     string          // names what a warning is given once for
	bytes   int             // of what was read
}

// route reads a discarded message, rewrites it and finds its targets by the view
// (DL-23, DL-36, DL-41). dst is room for the targets.
func route(v *catalog.View, rt Router, src Source, d *quorumq.Discarded, dst []id.QueueUID) routed {
	rec, ok := v.QueueByUID(src.UID())
	if !ok {
		return routed{cause: CauseDisabled, text: "the source queue is being deleted"}
	}
	rule := rt.Rule(rec)
	if !rule.Enabled {
		return routed{cause: CauseDisabled, text: "the queue has no dead-letter exchange any more"}
	}
	if _, ok := v.Exchange(rec.VHost, rule.Exchange); !ok {
		return routed{
			cause: CauseNoExchange, key: rule.Exchange,
			text: fmt.Sprintf("the dead-letter exchange %q does not exist; declare it", rule.Exchange),
		}
	}
	m, size, err := read(src, d)
	if err != nil {
		return routed{cause: CauseUnreadable, text: "a stored message cannot be read: " + err.Error()}
	}
	r := routed{bytes: size, msg: Rewrite(m, Discard{
		Queue: rec.Name, Reason: d.Reason, NowMs: int64(d.At), DeliveryCount: d.DeliveryCount, AcquiredCount: d.AcquiredCount,
		Exchange: rule.Exchange, RoutingKey: rule.RoutingKey, HasRoutingKey: rule.HasRoutingKey,
	})}
	headers := r.msg.Headers.Merged(message.DeathHeaders(&r.msg)) // EX-10
	r.targets, err = v.Route(rec.VHost, rule.Exchange, &catalog.Publication{
		Keys: r.msg.RoutingKeys, Headers: headers, Properties: &r.msg.Properties, Chance: chance(src.UID(), d.Body),
		Alternate: rt.AlternateExchange,
	}, dst)
	if err != nil || len(r.targets) == 0 {
		r.cause, r.key = CauseUnroutable, rule.Exchange+"\x00"+r.msg.PrimaryKey()
		r.text = fmt.Sprintf("the dead-letter exchange %q routes key %q to no queue; bind one", rule.Exchange, r.msg.PrimaryKey())
		return r
	}
	r.targets = slices.DeleteFunc(r.targets, func(uid id.QueueUID) bool {
		q, ok := v.QueueByUID(uid)
		return !ok || Cyclic(r.msg.Deaths, q.Name)
	})
	if len(r.targets) == 0 {
		r.cause, r.key = CauseCycle, deathQueues(r.msg.Deaths)
		r.text = fmt.Sprintf("every target of exchange %q would make the message go round without a consumer; "+
			"its deaths: %s", rule.Exchange, r.key)
	}
	return r
}

// chance decides where the letter goes when an exchange takes any of its bindings. It is
// the letter's own, so that a repeat goes where the first try went (DL-25).
func chance(source id.QueueUID, body quorumq.BodyRef) uint64 {
	h := uint64(source)
	for _, n := range [...]uint64{body.Index, uint64(body.Slot)} {
		h = (h ^ n) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	return h
}

// read returns the stored message with the annotations of its discard (DL-11, DEL-11).
func read(src Source, d *quorumq.Discarded) (*message.Message, int, error) {
	b, err := src.Body(d.Body)
	if err != nil {
		return nil, 0, err
	}
	m, err := message.Decode(b)
	if err != nil {
		return nil, 0, err
	}
	if d.Annotations == (quorumq.BodyRef{}) {
		return m, len(b), nil
	}
	a, err := src.Body(d.Annotations)
	if err != nil {
		return nil, 0, err
	}
	t, _, err := message.DecodeTable(a)
	if err != nil {
		return nil, 0, err
	}
	if m.Annotations = m.Annotations.Merged(t); message.CheckTable("annotations", m.Annotations) != nil {
		m.Annotations = t // both together are too much to be stored; the newer ones stay
	}
	return m, len(b) + len(a), nil
}

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

// encode returns the stored form and what the target's machine is told. The message has
// no TTL of its own any more (DL-35).
func (r *routed) encode() (quorumq.NewMessage, []byte) {
	const deathBytes = 256 // a guess for one more death; too small costs a copy
	priority := quorumq.DefaultPriority
	if r.msg.Priority != 0 || r.msg.Has&message.HasPriority != 0 {
		priority = min(r.msg.Priority, 31) // PR-1
	}
	nm := quorumq.NewMessage{Size: uint32(len(r.msg.Body)), TTLMs: quorumq.Unlimited, Priority: priority}
	return nm, message.Append(make([]byte, 0, r.bytes+deathBytes), &r.msg)
}
