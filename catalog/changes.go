package catalog

import (
	"cmp"
	"iter"
)

// ChangedQueues goes over the queues that differ between an older view and this one, by UID: the
// old and the new record, nil where there is none. Its cost is proportional to the changes, not to
// the number of queues.
func (v *View) ChangedQueues(since *View) iter.Seq2[*QueueRecord, *QueueRecord] {
	return func(yield func(was, is *QueueRecord) bool) {
		changes(since.queues, v.queues, yield)
	}
}

// changes calls f for every key whose value differs, in ascending order and with the zero value for
// a missing one, until f returns false. It skips nodes that both trees share.
func changes[K cmp.Ordered, V comparable](old, now tree[K, V], f func(was, is V) bool) {
	a, b := walkTree(old), walkTree(now)
	var none V
	for {
		switch ha, hb := a.height(), b.height(); {
		case ha == ended && hb == ended:
			return
		case ha == hb && ha >= 0 && a.node() == b.node():
			a.skip()
			b.skip()
		case ha >= 0 && ha >= hb:
			// Two nodes of the same height are opened one after the other.
			if ha == hb {
				b.open()
			}
			a.open()
		case hb >= 0:
			b.open()
		default:
			ka, va := a.entry()
			kb, vb := b.entry()
			var more bool
			switch {
			case hb == ended || ha != ended && ka < kb:
				a.skip()
				more = f(va, none)
			case ha == ended || kb < ka:
				b.skip()
				more = f(none, vb)
			default:
				a.skip()
				b.skip()
				more = va == vb || f(va, vb)
			}
			if !more {
				return
			}
		}
	}
}

// ended is the height at the end. Leaves have 0, inner nodes more, entries -1.
const ended = -2

// treeWalk is a position in a tree: before a node, which it can skip or open, before an entry of a
// leaf, or at the end.
type treeWalk[K cmp.Ordered, V any] struct {
	root  *treeNode[K, V] // until it is opened or skipped
	depth int             // height of the root
	path  []place[K, V]
}

// place is a position within an open node.
type place[K cmp.Ordered, V any] struct {
	node *treeNode[K, V]
	next int
}

// walkTree stands before the root; depth is the root's height, which all leaves share.
func walkTree[K cmp.Ordered, V any](t tree[K, V]) *treeWalk[K, V] {
	w := &treeWalk[K, V]{root: t.root}
	for n := t.root; n != nil && n.kids != nil; n = n.kids[0] {
		w.depth++
	}
	return w
}

// height drops finished nodes and returns the height of what comes next.
func (w *treeWalk[K, V]) height() int {
	if w.root != nil {
		return w.depth
	}
	for n := len(w.path); n > 0; n-- {
		if p := w.path[n-1]; p.next < len(p.node.keys) {
			w.path = w.path[:n]
			return w.depth - n
		}
	}
	w.path = nil
	return ended
}

// node returns the node that comes next. It may be called only where height is 0 or more.
func (w *treeWalk[K, V]) node() *treeNode[K, V] {
	if w.root != nil {
		return w.root
	}
	p := w.path[len(w.path)-1]
	return p.node.kids[p.next]
}

// entry returns zero values unless an entry comes next.
func (w *treeWalk[K, V]) entry() (k K, v V) {
	if len(w.path) == 0 {
		return k, v
	}
	p := w.path[len(w.path)-1]
	return p.node.keys[p.next], p.node.vals[p.next]
}

// skip passes over the node or entry that comes next, with all below it.
func (w *treeWalk[K, V]) skip() {
	if w.root != nil {
		w.root = nil
		return
	}
	w.path[len(w.path)-1].next++
}

// open goes into the node that comes next. The place in the parent moves on first, so the walk
// continues behind the node when its contents are done.
func (w *treeWalk[K, V]) open() {
	n := w.node()
	w.skip()
	w.path = append(w.path, place[K, V]{node: n})
}
