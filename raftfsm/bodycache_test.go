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

// What is not used between two calls of Age goes with the second, be it found, added again or new before.
func TestBodyCacheAge(t *testing.T) {
	const many = 2*ageAtOnce + 1
	set := &bodySet{data: make([]byte, 10)}
	c := NewBodyCache(1 << 30)
	key := func(i uint64) cacheKey { return cacheKey{id.GroupID(1), i} }
	kept := func(want ...uint64) {
		t.Helper()
		if s := c.Stats(); s.Entries != int64(len(want)) || s.Bytes != int64(len(want))*set.memoryBytes() {
			t.Errorf("%+v, want entries %d", s, want)
		}
		for _, i := range want {
			if _, ok := c.entries[key(i)]; !ok {
				t.Errorf("entry %d is missing", i)
			}
		}
	}
	for i := range uint64(many) {
		c.add(key(i), set)
	}
	c.Age()
	if s := c.Stats(); s.Entries != many {
		t.Errorf("%d of %d entries are left after one call", s.Entries, many)
	}
	c.get(key(3))
	c.add(key(5), set)
	c.add(key(many), set)
	c.Age()
	kept(3, 5, many)
	if c.peak != 3 {
		t.Errorf("the map of %d entries is kept for %d", c.peak, len(c.entries))
	}
	c.get(key(5))
	c.Age()
	kept(5)
	full := c.entries
	c.Age()
	kept()
	if full[key(1)] = nil; len(c.entries) != 0 {
		t.Error("the map of all entries is kept")
	}
	c.add(key(1), set)
	c.Age()
	kept(1)
}
