package catalog

import (
	"slices"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
)

// walk is one routing in progress.
type walk struct {
	dst       []id.QueueUID
	first     string                     // the exchange of the publish
	queues    tree[string, *QueueRecord] // queues of the vhost, for the default exchange
	exchanges []string                   // visited exchanges and those to visit, breadth-first; empty while there is only the first
	seen      map[string]struct{}        // the same set, once there are many
	found     int                        // destinations of the current exchange
	trace     *trace                     // of an explanation; nil: none
}

// manyExchanges is the number of exchanges in one walk above which searching the list costs more
// than a map.
const manyExchanges = 64

// Publication is the input of routing. It also holds the state of one routing, so that a caller who
// routes many messages allocates nothing; only one goroutine at a time may route it.
type Publication struct {
	Keys    []string      // the routing key, then the CC and BCC keys (EX-7)
	Headers message.Table // for headers exchanges, and for those that hash one
	// Dead is a message whose deaths count as headers in addition to Headers (EX-10); nil: none. These
	// headers are only made where an exchange needs them.
	Dead       *message.Message
	Properties *message.Properties // for exchanges that hash one; nil: none is set
	// Chance selects the binding where an exchange takes any of its bindings (EX-14). A caller that
	// may route a message twice passes the same value again.
	Chance uint64
	// Local reports whether a queue is led on the publisher's node, for x-local-random. nil
	// stands for every queue.
	Local func(id.QueueUID) bool
	// Alternate returns an exchange's alternate exchange, which policies may set (EX-12). nil: only
	// its own argument counts.
	Alternate func(*View, *Exchange) (name string, ok bool)

	walk walk
}

// alternate asks the caller's rule, which knows policies, before the exchange's own argument
// (EX-12).
func (p *Publication) alternate(v *View, x *Exchange) (name string, ok bool) {
	if p.Alternate == nil {
		return x.AlternateExchange()
	}
	return p.Alternate(v, x)
}

// headers are the headers that exchanges compare.
func (p *Publication) headers() message.Table {
	if p.Dead == nil {
		return p.Headers
	}
	return p.Headers.Merged(message.DeathHeaders(p.Dead))
}

// primaryKey returns the routing key, without the CC and BCC keys, or "".
func (p *Publication) primaryKey() string {
	if len(p.Keys) == 0 {
		return ""
	}
	return p.Keys[0]
}

// Route adds to dst the queues that a message published to the exchange goes to, each
// once, in ascending order of UID, and returns the longer slice. Exchanges bound to
// exchanges are followed breadth-first, each once (EX-11), and the alternate exchange of
// one that has no destination is taken instead (EX-12). No queue means unroutable; a
// vhost or exchange that does not exist gives an *Error with CodeNotFound.
func (v *View) Route(vhost, exchange string, p *Publication, dst []id.QueueUID) ([]id.QueueUID, error) {
	h, ok := v.vhosts.get(vhost)
	if !ok {
		return dst, noVHost(vhost)
	}
	x, ok := h.exchanges.get(exchange)
	if !ok {
		return dst, noExchange(vhost, exchange)
	}
	start := len(dst)
	p.walk = walk{dst: dst, first: exchange, queues: h.queues}
	p.walk.run(v, &h, x, p)
	dst, p.walk = p.walk.dst, walk{}
	routed := dst[start:]
	if len(routed) > 1 {
		slices.Sort(routed)
		routed = slices.Compact(routed)
	}
	return dst[:start+len(routed)], nil
}

// run visits the exchange and all exchanges behind it.
func (w *walk) run(v *View, h *vhost, x *exchange, p *Publication) {
	for i := 0; x != nil; i, x = w.following(h, i) {
		w.found = 0
		if w.trace != nil {
			w.trace.enter(x)
		}
		x.index.match(p, w)
		if w.found > 0 {
			continue
		}
		if ae, has := p.alternate(v, x.rec); has {
			if w.trace != nil {
				w.trace.alternate(ae)
			}
			w.visit(ae)
		}
	}
}

// following returns the next existing exchange of the walk; nil at the end.
func (w *walk) following(h *vhost, at int) (int, *exchange) {
	for at++; at < len(w.exchanges); at++ {
		if x, ok := h.exchanges.get(w.exchanges[at]); ok {
			return at, x
		}
	}
	return at, nil
}

// addAll adds every target of a set.
func (w *walk) addAll(d destinations) {
	d.each(func(binding string, t target) bool {
		w.add(binding, t)
		return true
	})
}

// add takes a target; binding is the exchange's name for the binding.
func (w *walk) add(binding string, t target) {
	w.found++
	if w.trace != nil {
		w.trace.record(binding, t)
	}
	if t.uid != 0 {
		w.dst = append(w.dst, t.uid)
		return
	}
	w.visit(t.exchange)
}

// visit adds an exchange to the list unless it is there already.
func (w *walk) visit(name string) {
	if len(w.exchanges) == 0 {
		w.exchanges = append(make([]string, 0, 8), w.first)
	}
	switch {
	case w.seen != nil:
		if _, ok := w.seen[name]; ok {
			return
		}
		w.seen[name] = struct{}{}
	case slices.Contains(w.exchanges, name):
		return
	case len(w.exchanges) >= manyExchanges:
		w.seen = make(map[string]struct{}, 2*manyExchanges)
		for _, x := range w.exchanges {
			w.seen[x] = struct{}{}
		}
		w.seen[name] = struct{}{}
	}
	w.exchanges = append(w.exchanges, name)
}
