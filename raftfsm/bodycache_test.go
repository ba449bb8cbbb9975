package raftfsm

import (
	"testing"

	"github.com/quorate/quorate/id"
)

// A smaller limit drops what was used longest ago, at once; a larger one takes more again.
func TestBodyCacheLimit(t *testing.T) {
	set := func() *bodySet { return &bodySet{data: make([]byte, 1000)} }
	one := set().memoryBytes()
	c := NewBodyCache(4 * one)
	key := func(i uint64) cacheKey { return cacheKey{id.GroupID(1), i} }
	has := func(want ...uint64) {
		t.Helper()
		s := c.Stats()
		if s.Entries != int64(len(want)) || s.Bytes != int64(len(want))*one {
			t.Errorf("%+v, want entries %d", s, want)
		}
		for _, i := range want {
			if _, ok := c.entries[key(i)]; !ok {
				t.Errorf("entry %d is missing", i)
			}
		}
	}
	for i := range uint64(4) {
		c.add(key(i), set())
	}
	c.get(key(0))
	c.Limit(2 * one)
	has(0, 3)
	c.add(key(4), set())
	has(0, 4)
	c.Limit(one - 1)
	has()
	c.add(key(5), set()) // there is no room for any
	has()
	c.Limit(2 * one)
	c.add(key(6), set())
	has(6)
}
