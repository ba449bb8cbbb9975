package catalog

import "strconv"

// places holds bindings by their place, in the order of destination and key (EX-14). Exchanges that
// take one of all bindings, or all of them, need nothing else.
type places struct{ all destinations }

func (x places) add(b *Binding, to target) places { return places{x.all.set(b.place(), to)} }

func (x places) remove(b *Binding) places { return places{x.all.without(b.place())} }

func (places) knownBy(b *Binding) string { return b.place() }

func (places) miss(*Binding, *Publication) (why string, near int) {
	return "the exchange takes one binding of all, and took another", 0
}

// fanoutIndex takes all bindings (EX-7).
type fanoutIndex struct {
	takesAny
	places
}

func (x fanoutIndex) with(b *Binding, _ string, to target) index {
	return fanoutIndex{places: x.add(b, to)}
}

func (x fanoutIndex) without(b *Binding, _ string) index { return fanoutIndex{places: x.remove(b)} }

func (x fanoutIndex) match(_ *Publication, w *walk) { w.addAll(x.all) }

// modulusIndex takes the binding at the routing key's hash modulo the number of bindings (EX-14).
type modulusIndex struct {
	takesAny
	places
}

func (x modulusIndex) with(b *Binding, _ string, to target) index {
	return modulusIndex{places: x.add(b, to)}
}

func (x modulusIndex) without(b *Binding, _ string) index { return modulusIndex{places: x.remove(b)} }

// match counts over places, so equal sets of bindings choose alike in whatever order they came. A
// binding more or less moves most keys.
func (x modulusIndex) match(p *Publication, w *walk) {
	if n := x.all.len(); n > 0 {
		w.add(x.all.at(int(hashText(p.primaryKey()) % uint64(n))))
	}
}

// randomIndex takes any binding, by the publication's chance (EX-14).
type randomIndex struct {
	takesAny
	places
}

func (x randomIndex) with(b *Binding, _ string, to target) index {
	return randomIndex{places: x.add(b, to)}
}

func (x randomIndex) without(b *Binding, _ string) index { return randomIndex{places: x.remove(b)} }

// match takes Chance from the publication, because the package has no randomness of its own.
func (x randomIndex) match(p *Publication, w *walk) {
	if n := x.all.len(); n > 0 {
		w.add(x.all.at(int(p.Chance % uint64(n))))
	}
}

// localIndex takes any of the bound queues that are led on the publisher's node (EX-14).
type localIndex struct{ places }

func (x localIndex) with(b *Binding, _ string, to target) index { return localIndex{x.add(b, to)} }

func (x localIndex) without(b *Binding, _ string) index { return localIndex{x.remove(b)} }

// checkBinding refuses exchanges as destinations: only a queue has a leader.
func (localIndex) checkBinding(e Error, c *Bind) *Error {
	if c.DestinationKind != ToExchange {
		return nil
	}
	e.Arg, e.Value = "destination", strconv.Quote(c.Destination)
	e.Reason = "an exchange of type x-local-random leads to queues only: it takes one that is led on the publisher's node"
	return &e
}

// match counts the local queues first and then takes one of them by Chance, with two walks instead
// of an allocation. Without a local queue the message is unroutable (EX-14).
func (x localIndex) match(p *Publication, w *walk) {
	if p.Local == nil {
		randomIndex{places: x.places}.match(p, w)
		return
	}
	local := uint64(0)
	count := func(_ string, t target) bool {
		if p.Local(t.uid) {
			local++
		}
		return true
	}
	if x.all.each(count); local == 0 {
		return
	}
	left := p.Chance % local
	x.all.each(func(binding string, t target) bool {
		if !p.Local(t.uid) {
			return true
		}
		if left > 0 {
			left--
			return true
		}
		w.add(binding, t)
		return false
	})
}

func (localIndex) miss(*Binding, *Publication) (why string, near int) {
	return "another binding was taken, or its queue is not led on this node", 0
}
