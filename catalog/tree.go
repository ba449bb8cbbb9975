package catalog

import (
	"cmp"
	"slices"
)

// fanOut is the maximum number of keys in a tree node.
const fanOut = 32

// tree is an immutable sorted map: set and without return a new tree that shares all
// untouched nodes with the old one, so that a change costs O(log n) and old trees stay
// readable. The zero value is empty. Leaves may become sparse by removals; only empty
// ones go, which keeps the depth bounded by the largest size the tree ever had.
type tree[K cmp.Ordered, V any] struct {
	root *treeNode[K, V]
}

// treeNode is a leaf (kids nil; vals[i] belongs to keys[i]) or an inner node (vals nil;
// kids[i] holds the keys from keys[i] up to keys[i+1]; keys[0] is a lower bound only when
// the node was made, so it is never compared).
type treeNode[K cmp.Ordered, V any] struct {
	keys []K
	vals []V
	kids []*treeNode[K, V]
	size int // keys of the leaves below
}

func newLeaf[K cmp.Ordered, V any](keys []K, vals []V) *treeNode[K, V] {
	return &treeNode[K, V]{keys: keys, vals: vals, size: len(keys)}
}

// newInner makes an inner node, whose size is the sum of its kids'.
func newInner[K cmp.Ordered, V any](keys []K, kids []*treeNode[K, V]) *treeNode[K, V] {
	n := &treeNode[K, V]{keys: keys, kids: kids}
	n.count()
	return n
}

// count sets the size of a node that is not shared yet.
func (n *treeNode[K, V]) count() {
	n.size = len(n.vals)
	for _, kid := range n.kids {
		n.size += kid.size
	}
}

// at returns the i-th key in ascending order, from 0, and its value; i is less than len.
func (t tree[K, V]) at(i int) (K, V) {
	n := t.root
	for n.kids != nil {
		at := 0
		for ; i >= n.kids[at].size; at++ {
			i -= n.kids[at].size
		}
		n = n.kids[at]
	}
	return n.keys[i], n.vals[i]
}

// ceiling returns the value of the first key that is not below k.
func (t tree[K, V]) ceiling(k K) (v V, ok bool) {
	t.from(k, func(_ K, found V) bool {
		v, ok = found, true
		return false
	})
	return v, ok
}

// len returns the number of keys, in constant time.
func (t tree[K, V]) len() int {
	if t.root == nil {
		return 0
	}
	return t.root.size
}

// child returns the index of the kid that would hold k.
func (n *treeNode[K, V]) child(k K) int {
	lo, hi := 1, len(n.keys)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if k < n.keys[mid] {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo - 1
}

// search returns the index of k in a leaf, or where it would be.
func (n *treeNode[K, V]) search(k K) (int, bool) {
	lo, hi := 0, len(n.keys)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if n.keys[mid] < k {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(n.keys) && n.keys[lo] == k
}

// get finds a key by binary search on each level.
func (t tree[K, V]) get(k K) (v V, ok bool) {
	n := t.root
	if n == nil {
		return v, false
	}
	for n.kids != nil {
		n = n.kids[n.child(k)]
	}
	if i, found := n.search(k); found {
		return n.vals[i], true
	}
	return v, false
}

// set returns a tree with the value under the key. Where the root was split, the tree grows by a
// level.
func (t tree[K, V]) set(k K, v V) tree[K, V] {
	if t.root == nil {
		return tree[K, V]{newLeaf([]K{k}, []V{v})}
	}
	left, right := t.root.set(k, v)
	if right != nil {
		left = newInner([]K{left.keys[0], right.keys[0]}, []*treeNode[K, V]{left, right})
	}
	return tree[K, V]{left}
}

// set returns the node's replacement, and a second node when it had to be split.
func (n *treeNode[K, V]) set(k K, v V) (left, right *treeNode[K, V]) {
	if n.kids == nil {
		i, found := n.search(k)
		if found {
			vals := slices.Clone(n.vals)
			vals[i] = v
			return newLeaf(n.keys, vals), nil
		}
		left = newLeaf(inserted(n.keys, i, k), inserted(n.vals, i, v))
		return left, left.split()
	}
	i := n.child(k)
	l, r := n.kids[i].set(k, v)
	if r == nil {
		kids := slices.Clone(n.kids)
		kids[i] = l
		return newInner(n.keys, kids), nil
	}
	kids := inserted(n.kids, i+1, r)
	kids[i] = l
	left = newInner(inserted(n.keys, i+1, r.keys[0]), kids)
	return left, left.split()
}

// split takes the upper half off a node that is too large. The node is not shared yet.
func (n *treeNode[K, V]) split() *treeNode[K, V] {
	if len(n.keys) <= fanOut {
		return nil
	}
	half := len(n.keys) / 2
	r := &treeNode[K, V]{keys: slices.Clone(n.keys[half:])}
	n.keys = slices.Clone(n.keys[:half])
	if n.kids != nil {
		r.kids = slices.Clone(n.kids[half:])
		n.kids = slices.Clone(n.kids[:half])
	} else {
		r.vals = slices.Clone(n.vals[half:])
		n.vals = slices.Clone(n.vals[:half])
	}
	n.count()
	r.count()
	return r
}

// without returns a tree without the key, t itself if it is not there. Roots with one kid are
// dropped, so that the tree gets shallower again.
func (t tree[K, V]) without(k K) tree[K, V] {
	if _, ok := t.get(k); !ok {
		return t
	}
	root := t.root.without(k)
	for root != nil && len(root.kids) == 1 {
		root = root.kids[0]
	}
	return tree[K, V]{root}
}

// without removes k, which is there, and returns nil when nothing is left.
func (n *treeNode[K, V]) without(k K) *treeNode[K, V] {
	if n.kids == nil {
		i, _ := n.search(k)
		if len(n.keys) == 1 {
			return nil
		}
		return newLeaf(removed(n.keys, i), removed(n.vals, i))
	}
	i := n.child(k)
	kid := n.kids[i].without(k)
	if kid != nil {
		kids := slices.Clone(n.kids)
		kids[i] = kid
		return newInner(n.keys, kids)
	}
	if len(n.kids) == 1 {
		return nil
	}
	return newInner(removed(n.keys, i), removed(n.kids, i))
}

// each calls f for every key in ascending order until it returns false.
func (t tree[K, V]) each(f func(K, V) bool) {
	if t.root != nil {
		t.root.each(f)
	}
}

// each visits the subtree in ascending order; false: f ended the walk.
func (n *treeNode[K, V]) each(f func(K, V) bool) bool {
	for i, v := range n.vals {
		if !f(n.keys[i], v) {
			return false
		}
	}
	for _, kid := range n.kids {
		if !kid.each(f) {
			return false
		}
	}
	return true
}

// from calls f for every key from k on in ascending order until it returns false.
func (t tree[K, V]) from(k K, f func(K, V) bool) {
	if t.root != nil {
		t.root.from(k, f)
	}
}

// from visits the keys from k on; only the nodes on the way to k are searched. false: f ended the
// walk.
func (n *treeNode[K, V]) from(k K, f func(K, V) bool) bool {
	if n.kids == nil {
		i, _ := n.search(k)
		for ; i < len(n.keys); i++ {
			if !f(n.keys[i], n.vals[i]) {
				return false
			}
		}
		return true
	}
	i := n.child(k)
	if !n.kids[i].from(k, f) {
		return false
	}
	for _, kid := range n.kids[i+1:] {
		if !kid.each(f) {
			return false
		}
	}
	return true
}

// inserted returns a copy with v at place i; the original is shared and stays as it is.
func inserted[T any](s []T, i int, v T) []T {
	out := make([]T, len(s)+1)
	copy(out, s[:i])
	out[i] = v
	copy(out[i+1:], s[i:])
	return out
}

// removed returns a copy without place i; the original is shared and stays as it is.
func removed[T any](s []T, i int) []T {
	out := make([]T, len(s)-1)
	copy(out, s[:i])
	copy(out[i:], s[i+1:])
	return out
}
