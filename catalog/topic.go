package catalog

import (
	"fmt"
	"strings"
)

// topicIndex has the bindings of a topic exchange in a trie of their keys (EX-8).
type topicIndex struct {
	byIdentity
	takesAny
	root *topicNode
}

func (x topicIndex) with(b *Binding, ident string, to target) index {
	x.root = x.root.with(topicWords(b.Key), ident, to)
	return x
}

func (x topicIndex) without(b *Binding, ident string) index {
	x.root = x.root.without(topicWords(b.Key), ident)
	return x
}

// match walks the trie once for each key; Route drops the targets that more than one key reaches.
func (x topicIndex) match(p *Publication, w *walk) {
	for _, k := range p.Keys {
		x.root.match(k, w)
	}
}

func (topicIndex) miss(b *Binding, p *Publication) (why string, near int) {
	return missedPattern(b.Key, p.Keys)
}

// topicNode is a node in the trie of a topic exchange's binding keys (EX-8), with one level per
// word. It is replaced, never changed; nil is the empty trie.
type topicNode struct {
	words tree[string, *topicNode]
	star  *topicNode // "*": exactly one word
	hash  *topicNode // "#": zero or more words
	here  destinations
}

// topicWords splits a binding key; the empty key has no words.
func topicWords(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

// with returns the trie with the binding added; it copies the nodes along the key and shares the
// rest.
func (n *topicNode) with(words []string, ident string, t target) *topicNode {
	var m topicNode
	if n != nil {
		m = *n
	}
	if len(words) == 0 {
		m.here = m.here.set(ident, t)
		return &m
	}
	m.setChild(words[0], m.child(words[0]).with(words[1:], ident, t))
	return &m
}

// without removes a binding and returns nil when the node has become empty.
func (n *topicNode) without(words []string, ident string) *topicNode {
	if n == nil {
		return nil
	}
	m := *n
	if len(words) == 0 {
		m.here = m.here.without(ident)
	} else {
		m.setChild(words[0], m.child(words[0]).without(words[1:], ident))
	}
	if m.here.len() == 0 && m.words.len() == 0 && m.star == nil && m.hash == nil {
		return nil
	}
	return &m
}

// child returns the subtree behind a word of a binding key, wildcards included, or nil.
func (n *topicNode) child(word string) *topicNode {
	switch word {
	case "*":
		return n.star
	case "#":
		return n.hash
	}
	c, _ := n.words.get(word)
	return c
}

// setChild replaces a subtree; nil removes it. n must not be shared yet.
func (n *topicNode) setChild(word string, c *topicNode) {
	switch {
	case word == "*":
		n.star = c
	case word == "#":
		n.hash = c
	case c == nil:
		n.words = n.words.without(word)
	default:
		n.words = n.words.set(word, c)
	}
}

// match adds the targets of all binding keys that match the routing key. It walks the
// words once with the set of nodes reached so far, so that keys with many "#" cost no
// more than the number of nodes they reach. Nodes behind a "#" stay reached for ever,
// because "#" swallows any further words; they are kept apart. Every other node can be
// reached only from its one parent, hence never twice in a step.
func (n *topicNode) match(key string, w *walk) {
	if n == nil {
		return
	}
	var bufs [3][16]*topicNode
	reached, next, hashes := bufs[0][:0], bufs[1][:0], bufs[2][:0]
	reached, hashes = enter(reached, hashes, n, false)
	for more := key != ""; more; {
		var word string
		word, key, more = strings.Cut(key, ".")
		next = next[:0]
		old := hashes
		for _, m := range reached {
			next, hashes = m.step(word, next, hashes)
		}
		for _, m := range old {
			next, hashes = m.step(word, next, hashes)
		}
		reached, next = next, reached
	}
	for _, m := range reached {
		w.addAll(m.here)
	}
	for _, m := range hashes {
		w.addAll(m.here)
	}
}

// step advances by one word of the routing key, by its own name and by "*".
func (n *topicNode) step(word string, next, hashes []*topicNode) (nodes, hashNodes []*topicNode) {
	if c, ok := n.words.get(word); ok {
		next, hashes = enter(next, hashes, c, false)
	}
	if n.star != nil {
		next, hashes = enter(next, hashes, n.star, false)
	}
	return next, hashes
}

// enter reaches a node and, through "#" for zero words, the nodes behind it.
func enter(nodes, hashes []*topicNode, n *topicNode, viaHash bool) (_, _ []*topicNode) {
	for ; n != nil; n, viaHash = n.hash, true {
		if !viaHash {
			nodes = append(nodes, n)
			continue
		}
		for _, h := range hashes {
			if h == n {
				return nodes, hashes // and so is all that is behind it
			}
		}
		hashes = append(hashes, n)
	}
	return nodes, hashes
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
