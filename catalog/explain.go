package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
)

// MaxMisses bounds the bindings of an exchange that an explanation names without their
// matching.
const MaxMisses = 10

// Explanation tells where a message goes and why (G-20). It comes of the routing itself,
// which says what it takes.
type Explanation struct {
	Queues []id.QueueUID // as Route returns them
	Steps  []RouteStep   // the exchanges that it comes by, in order
}

// RouteStep is an exchange that a message comes by.
type RouteStep struct {
	Name     string
	Exchange *Exchange // nil: there is no such exchange
	// From is the place in Steps of the exchange that led here, -1 for the first; Binding is
	// what led here, nil for the first and for an alternate exchange.
	From    int
	Binding *Binding
	// Taken are the bindings that lead on; those of the default exchange are made up (EX-3).
	Taken []*Binding
	// Misses are bindings that do not, the nearest first, at most MaxMisses of MissCount.
	Misses    []RouteMiss
	MissCount int
}

// RouteMiss is a binding that does not match.
type RouteMiss struct {
	Binding *Binding
	Why     string
	near    int
}

// trace is what a walk says of itself.
type trace struct {
	steps []traced
	ways  map[string]way // by exchange: the first way to it
}

type traced struct {
	x     *exchange
	taken map[string]struct{} // what the exchange knows its bindings by
	uids  []id.QueueUID       // of the default exchange
}

type way struct {
	step    int
	binding string
}

func (t *trace) enter(x *exchange) {
	t.steps = append(t.steps, traced{x: x, taken: map[string]struct{}{}})
}

func (t *trace) take(binding string, to target) {
	at := &t.steps[len(t.steps)-1]
	at.taken[binding] = struct{}{}
	if to.uid == 0 {
		t.lead(to.exchange, binding)
	} else if binding == "" {
		at.uids = append(at.uids, to.uid)
	}
}

func (t *trace) alternate(name string) { t.lead(name, "") }

func (t *trace) lead(name, binding string) {
	if _, known := t.ways[name]; !known {
		t.ways[name] = way{len(t.steps) - 1, binding}
	}
}

// knownBy returns what an exchange knows a binding by.
func (x *Exchange) knownBy(b *Binding) string {
	switch x.Type {
	case ExchangeDirect, ExchangeTopic, ExchangeHeaders:
		return b.identity()
	default:
		return b.place()
	}
}

// Explain routes a message as Route does and tells why it goes where it goes, and why not
// elsewhere.
func (v *View) Explain(vhost, exchange string, p *Publication) (Explanation, error) {
	var e Explanation
	var err error
	if e.Queues, err = v.Route(vhost, exchange, p, nil); err != nil {
		return e, err
	}
	h, _ := v.vhosts.get(vhost)
	x, _ := h.exchanges.get(exchange)
	t := &trace{ways: map[string]way{exchange: {step: -1}}}
	w := walk{first: exchange, trace: t}
	w.run(v, &h, x, p)
	for i := range t.steps {
		e.Steps = append(e.Steps, t.step(v, &t.steps[i], p))
	}
	for _, name := range w.exchanges { // those that are not there
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
		by := e.Steps[from.step].Exchange
		for _, b := range e.Steps[from.step].Taken {
			if from.binding != "" && by.knownBy(b) == from.binding {
				s.Binding = b
			}
		}
	}
	return e, nil
}

// step tells of one exchange which bindings led on and which did not.
func (t *trace) step(v *View, at *traced, p *Publication) RouteStep {
	x := at.x.rec
	s := RouteStep{Name: x.Name, Exchange: x}
	for _, uid := range at.uids {
		if q, ok := v.QueueByUID(uid); ok {
			s.Taken = append(s.Taken, &Binding{VHost: x.VHost, Destination: q.Name, DestinationKind: ToQueue, Key: q.Name})
		}
	}
	for b := range v.BindingsFrom(x.VHost, x.Name) {
		if _, taken := at.taken[x.knownBy(b)]; taken {
			s.Taken = append(s.Taken, b)
			continue
		}
		s.MissCount++
		why, near := x.miss(b, p)
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

// miss tells why a binding does not match, and how near it is: higher is nearer. Whether it
// matches is not decided here.
func (x *Exchange) miss(b *Binding, p *Publication) (why string, near int) {
	switch x.Type {
	case ExchangeDirect:
		return missedKey(b.Key, p.Keys)
	case ExchangeTopic:
		return missedPattern(b.Key, p.Keys)
	case ExchangeHeaders:
		return missedHeaders(newHeaderRule(b.Arguments, target{}), p.headers())
	case ExchangeLocalRandom:
		return "another binding was taken, or its queue is not led on this node", 0
	default:
		return "the exchange takes one binding of all, and took another", 0
	}
}

func missedKey(want string, keys []string) (why string, near int) {
	why = fmt.Sprintf("its key %q is none of the message's", want)
	for _, k := range keys {
		common := 0
		for common < len(k) && common < len(want) && k[common] == want[common] {
			common++
		}
		if strings.EqualFold(k, want) {
			why, common = fmt.Sprintf("its key %q differs from %q in upper and lower case", want, k), len(k)
		}
		near = max(near, common)
	}
	return why, near
}

// missedPattern compares word by word up to the first "#".
func missedPattern(pattern string, keys []string) (why string, near int) {
	near = -1
	for _, k := range keys {
		want, have := topicWords(pattern), topicWords(k)
		n := 0
		for n < len(want) && n < len(have) && want[n] != "#" && (want[n] == "*" || want[n] == have[n]) {
			n++
		}
		if n <= near {
			continue
		}
		near = n
		switch {
		case n < len(want) && want[n] == "#":
			why = fmt.Sprintf("what follows # in %q is not at the end of %q", pattern, k)
		case n == len(have):
			why = fmt.Sprintf("%q asks for more words than %q has", pattern, k)
		case n == len(want):
			why = fmt.Sprintf("%q has more words than %q asks for", k, pattern)
		default:
			why = fmt.Sprintf("word %d of %q is %q, in %q it is %q", n+1, pattern, want[n], k, have[n])
		}
	}
	return why, near
}

func missedHeaders(r *headerRule, headers message.Table) (why string, near int) {
	for i := range r.pairs {
		want := &r.pairs[i]
		have, there := headers.Get(want.Name)
		fault := ""
		switch {
		case !there:
			fault = fmt.Sprintf("header %q is missing", want.Name)
		case !want.Value.IsNull() && !want.Value.EqualClass(have):
			fault = fmt.Sprintf("header %q is %s, not %s", want.Name, have, want.Value)
			if have.Kind() != want.Value.Kind() {
				fault += fmt.Sprintf(" (%s against %s)", have.Kind(), want.Value.Kind())
			}
		default:
			near++
		}
		if fault != "" && why == "" {
			why = fault
		}
	}
	if why == "" {
		return "it asks for none of the message's headers", 0
	}
	return why, near
}

// Path returns the bindings by which a queue is reached, the first one first; alternate
// exchanges have none.
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
