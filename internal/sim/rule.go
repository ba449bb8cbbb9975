package sim

import (
	"encoding/json"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/deadletter"
	"github.com/quorate/quorate/quorumq"
)

// ruleComponent is the component of the parameters that stand for the policies about dead dead letters: like these
// they are in the catalog, and nodes see them later.
const ruleComponent = "dead-letters"

// otherExchangeOf is where a policy may send dead letters instead.
func otherExchangeOf(queue string) string { return "other." + queue }

// ruleOf returns how a queue dead-letters by a view.
func (w *world) ruleOf(v *catalog.View, queue string) deadletter.Rule {
	r := deadletter.Rule{Enabled: true, Exchange: exchangeOf(queue)}
	if !w.swarm.rules {
		return r
	}
	if p, set := v.Parameter(vhost, ruleComponent, queue); set {
		if err := json.Unmarshal([]byte(p.Value), &r); err != nil {
			w.broke("catalog", "the rule of queue %s cannot be read: %v", queue, err)
		}
	}
	return r
}

// setRule writes a rule for dead letters, as users do by a parameter.
func (w *world) setRule(place int, r deadletter.Rule) {
	text, err := json.Marshal(r)
	if err != nil {
		w.broke("catalog", "%v", err)
	}
	w.change(&catalog.PutParameter{Parameter: catalog.Parameter{VHost: vhost, Component: ruleComponent, Name: queueNames[place], Value: string(text)}})
}

// standing is the rule of a queue when nobody changes it.
func (w *world) standing(place int) deadletter.Rule {
	return deadletter.Rule{
		Enabled: true, Exchange: exchangeOf(queueNames[place]), AllowCycles: w.swarm.allow, MaxHops: w.swarm.hops[place],
	}
}

// changeRule changes where a queue's dead letters go, as a policy does while some wait
// (DL-27, DL-43): elsewhere, nowhere, or less often.
func (w *world) changeRule() {
	place := w.rng.IntN(len(queueNames))
	r := w.standing(place)
	switch w.rng.IntN(4) {
	case 0:
		r.Exchange = otherExchangeOf(queueNames[place])
	case 1:
		r.Enabled = false
	case 2:
		if r.MaxHops > 0 {
			r.MaxHops = 1 + w.rng.Uint64N(r.MaxHops)
		}
	}
	w.event("rule place enabled hops", int64(place), truth(r.Enabled), int64(r.MaxHops))
	w.setRule(place, r)
}

// kept reports that no target may have a dead letter by this rule, wherever it is routed.
func kept(r *deadletter.Rule, hops uint64) bool {
	return !r.Enabled || r.MaxHops > 0 && hops > r.MaxHops
}

// judgeHops: no queue stores a dead letter that went round where that is not allowed, or that has
// died more often than its source has ever allowed (DL-40, DL-43). at is the stored message.
func (l *ledger) judgeHops(m *meta, ref quorumq.BodyRef) {
	source := m.source
	if !l.w.swarm.rules || source.meta.kind == output || source.dead.To != nil {
		return
	}
	stored, err := l.message(ref)
	if err != nil {
		l.broke("body", "body %v cannot be read: %v", ref, err)
		return
	}
	if most, n := l.w.swarm.hops[source.l.g.place], deadletter.Hops(stored.Deaths); most > 0 && n > most {
		l.broke("DL-43", "body %v is stored after %d deaths, queue %s allows %d", ref, n, source.l.g.name, most)
	}
	if !l.w.swarm.allow && deadletter.Cyclic(stored.Deaths, l.g.name) {
		l.broke("DL-40", "body %v of queue %s went round: %+v", ref, source.l.g.name, stored.Deaths)
	}
}
