package catalog

import (
	"fmt"
	"strings"
)

// directIndex has the bindings of a direct exchange by their key (EX-7).
type directIndex struct {
	byIdentity
	takesAny
	keys tree[string, destinations]
}

// with adds the binding under its key. x is a copy, and trees are immutable: the caller's index
// stays as it was.
func (x directIndex) with(b *Binding, ident string, to target) index {
	here, _ := x.keys.get(b.Key)
	x.keys = x.keys.set(b.Key, here.set(ident, to))
	return x
}

// without drops a key with its last binding, so that keys that come and go leave nothing behind.
func (x directIndex) without(b *Binding, ident string) index {
	here, _ := x.keys.get(b.Key)
	if here = here.without(ident); here.len() == 0 {
		x.keys = x.keys.without(b.Key)
	} else {
		x.keys = x.keys.set(b.Key, here)
	}
	return x
}

// match looks up each key; Route drops the targets that more than one key reaches.
func (x directIndex) match(p *Publication, w *walk) {
	for _, k := range p.Keys {
		if here, ok := x.keys.get(k); ok {
			w.addAll(here)
		}
	}
}

// miss ranks by the common prefix with the nearest key, and points out a difference in case alone.
func (directIndex) miss(b *Binding, p *Publication) (why string, near int) {
	why = fmt.Sprintf("its key %q is none of the message's", b.Key)
	for _, k := range p.Keys {
		common := 0
		for common < len(k) && common < len(b.Key) && k[common] == b.Key[common] {
			common++
		}
		if strings.EqualFold(k, b.Key) {
			why, common = fmt.Sprintf("its key %q differs from %q in upper and lower case", b.Key, k), len(k)
		}
		near = max(near, common)
	}
	return why, near
}

// defaultIndex is the index of the default exchange: it has no bindings, and routes to queues by
// their names (EX-3).
type defaultIndex struct{ directIndex }

// match takes the queues named by the keys (EX-3). A queue that is drain-deleting gets nothing more
//
func (defaultIndex) match(p *Publication, w *walk) {
	for _, k := range p.Keys {
		if q, ok := w.queues.get(k); ok && q.DrainDeleting == 0 {
			w.add("", target{uid: q.UID})
		}
	}
}
