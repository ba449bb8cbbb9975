package catalog

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/id"
)

// MaxMisses bounds the bindings of an exchange that an explanation lists although they do not
// match.
const MaxMisses = 10

// Explanation is where a message goes, and why (G-20). The routing code itself records it.
type Explanation struct {
	Queues []id.QueueUID // as Route returns them
	Steps  []RouteStep   // the exchanges on the way, in order
}

// RouteStep is an exchange on the way of a message.
type RouteStep struct {
	Name     string
	Exchange *Exchange // nil: the exchange does not exist
	// From is the index in Steps of the exchange that led here, -1 for the first. Binding led here; it
	// is nil for the first and for an alternate exchange.
	From    int
	Binding *Binding
	// Taken are the bindings that match; for the default exchange they are made up (EX-3).
	Taken []*Binding
	// Misses are bindings that do not match, the nearest first, at most MaxMisses of MissCount.
	Misses    []RouteMiss
	MissCount int
}

// RouteMiss is a binding that does not match.
type RouteMiss struct {
	Binding *Binding
	Why     string
	near    int
}

// trace is the record of a walk.
type trace struct {
	steps []traced
	ways  map[string]way // by exchange: the first way to it
}

// traced is one visited exchange with what its index took.
type traced struct {
	x     *exchange
	taken map[string]struct{} // names that the exchange gives its bindings
	uids  []id.QueueUID       // for the default exchange
}

// way is how a walk first came to an exchange: from which step, by which binding; "" stands for an
// alternate exchange.
type way struct {
	step    int
	binding string
}

func (t *trace) enter(x *exchange) {
	t.steps = append(t.steps, traced{x: x, taken: map[string]struct{}{}})
}

// record notes a matching binding at the exchange that is being visited. The default exchange has no
// stored bindings, so its queues are kept by UID.
func (t *trace) record(binding string, to target) {
	at := &t.steps[len(t.steps)-1]
	at.taken[binding] = struct{}{}
	if to.uid == 0 {
		t.lead(to.exchange, binding)
	} else if binding == "" {
		at.uids = append(at.uids, to.uid)
	}
}

func (t *trace) alternate(name string) { t.lead(name, "") }

// lead records the first way to an exchange; later ones change nothing, because the walk visits each exchange once
// (EX-11).
func (t *trace) lead(name, binding string) {
	if _, known := t.ways[name]; !known {
		t.ways[name] = way{len(t.steps) - 1, binding}
	}
}

// Explain routes a message as Route does, and explains why it goes where it goes and not elsewhere.
func (v *View) Explain(vhost, exchange string, p *Publication) (Explanation, error) {
	var e Explanation
	var err error
	if e.Queues, err = v.Route(vhost, exchange, p, nil); err != nil {
		return e, err
	}
	h, _ := v.vhosts.get(vhost)
	x, _ := h.exchanges.get(exchange)
	t := &trace{ways: map[string]way{exchange: {step: -1}}}
	w := walk{first: exchange, queues: h.queues, trace: t}
	w.run(v, &h, x, p)
	for i := range t.steps {
		e.Steps = append(e.Steps, t.step(v, &t.steps[i], p))
	}
	for _, name := range w.exchanges { // exchanges that do not exist
		if _, there := h.exchanges.get(name); !there {
			e.Steps = append(e.Steps, RouteStep{Name: name})
		}
	}
	for i := range e.Steps {
		s := &e.Steps[i]
		from := t.ways[s.Name]
		if s.From = from.step; from.step < 0 {
			continue
		}
		by := t.steps[from.step].x.index
		for _, b := range e.Steps[from.step].Taken {
			if from.binding != "" && by.knownBy(b) == from.binding {
				s.Binding = b
			}
		}
	}
	return e, nil
}

// step describes which bindings of an exchange matched and which did not.
func (t *trace) step(v *View, at *traced, p *Publication) RouteStep {
	x, index := at.x.rec, at.x.index
	s := RouteStep{Name: x.Name, Exchange: x}
	for _, uid := range at.uids {
		if q, ok := v.QueueByUID(uid); ok {
			s.Taken = append(s.Taken, &Binding{VHost: x.VHost, Destination: q.Name, DestinationKind: ToQueue, Key: q.Name})
		}
	}
	for b := range v.BindingsFrom(x.VHost, x.Name) {
		if _, taken := at.taken[index.knownBy(b)]; taken {
			s.Taken = append(s.Taken, b)
			continue
		}
		s.MissCount++
		why, near := index.miss(b, p)
		s.Misses = append(s.Misses, RouteMiss{b, why, near})
		if len(s.Misses) >= 2*MaxMisses {
			s.nearest()
		}
	}
	s.nearest()
	return s
}

// nearest drops all but the nearest misses.
func (s *RouteStep) nearest() {
	slices.SortStableFunc(s.Misses, func(a, b RouteMiss) int { return cmp.Compare(b.near, a.near) })
	s.Misses = s.Misses[:min(len(s.Misses), MaxMisses)]
}

// Path returns the bindings on the way to a queue, the first one first; alternate exchanges add
// none.
func (e *Explanation) Path(queue string) []*Binding {
	for i := range e.Steps {
		for _, b := range e.Steps[i].Taken {
			if b.DestinationKind != ToQueue || b.Destination != queue {
				continue
			}
			path := []*Binding{b}
			for s := &e.Steps[i]; s.From >= 0; s = &e.Steps[s.From] {
				if s.Binding != nil {
					path = append(path, s.Binding)
				}
			}
			slices.Reverse(path)
			return path
		}
	}
	return nil
}
