package raftfsm

import (
	"container/list"
	"maps"
	"sync"

	"github.com/quorate/quorate/id"
)

// BodyCache keeps the bodies of recent entries within a limit in bytes; the groups of a node share
// one. All methods may be called concurrently.
type BodyCache struct {
	mu       sync.Mutex // guards what follows
	maxBytes int64
	bytes    int64
	entries  map[cacheKey]*list.Element // of *cached
	peak     int                        // the most entries that the map has had
	recent   *list.List                 // most recently used first
	round    uint64                     // between two calls of Age
	hits     uint64
	misses   uint64
}

// cacheKey names an entry among those of all groups.
type cacheKey struct {
	group id.GroupID
	index uint64
}

// cached is an entry of the list by use, and knows its key so that it can be dropped.
type cached struct {
	key    cacheKey
	bodies *bodySet
	round  uint64 // in which it was used last
}

// BodyCacheStats are a cache's statistics.
type BodyCacheStats struct {
	Hits, Misses          uint64 // bodies found and not found
	Bytes, Entries, Limit int64  // held now, and the limit in bytes
}

// NewBodyCache returns a cache of at most maxBytes.
func NewBodyCache(maxBytes int64) *BodyCache {
	return &BodyCache{maxBytes: maxBytes, entries: make(map[cacheKey]*list.Element), recent: list.New()}
}

// Stats returns the cache's statistics.
func (c *BodyCache) Stats() BodyCacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return BodyCacheStats{Hits: c.hits, Misses: c.misses, Bytes: c.bytes, Entries: int64(len(c.entries)), Limit: c.maxBytes}
}

// get returns nil if the entry is not there; what it returns is used last.
func (c *BodyCache) get(k cacheKey) *bodySet {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[k]
	if !ok {
		c.misses++
		return nil
	}
	c.hits++
	return c.use(e).bodies
}

// use marks an entry as used; c.mu is held.
func (c *BodyCache) use(e *list.Element) *cached {
	c.recent.MoveToFront(e)
	used, _ := e.Value.(*cached)
	used.round = c.round
	return used
}

// add puts an entry's bodies in front and drops what exceeds the budget. An entry above
// the whole budget is not kept.
func (c *BodyCache) add(k cacheKey, s *bodySet) {
	size := s.memoryBytes()
	c.mu.Lock()
	defer c.mu.Unlock()
	if size > c.maxBytes {
		return
	}
	if e, ok := c.entries[k]; ok {
		c.use(e)
		return
	}
	c.entries[k] = c.recent.PushFront(&cached{key: k, bodies: s, round: c.round})
	c.peak = max(c.peak, len(c.entries))
	c.bytes += size
	c.shrink()
}

// Limit sets the limit and drops the least recently used bodies above it.
func (c *BodyCache) Limit(maxBytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.maxBytes = maxBytes
	c.shrink()
}

// ageAtOnce is how many entries Age drops while others wait.
const ageAtOnce = 1024

// Age drops what has not been used since the call before: bodies that consumers have taken, and those that wait, which
// the system's cache of files has as well. What is used no more so stays for one to two intervals of calls.
func (c *BodyCache) Age() {
	for !c.age(ageAtOnce) {
	}
}

// age drops at most so many entries. Once none is left of those that were not used in this round, it begins the next
// round and returns true.
func (c *BodyCache) age(most int) (done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ; c.unused(); most-- {
		if most == 0 {
			return false
		}
		c.drop(c.recent.Back())
	}
	c.round++
	if c.peak > 8*len(c.entries) {
		c.renew()
	}
	return true
}

// renew makes the map anew, because a map keeps the memory of all that it once had; c.mu is held.
func (c *BodyCache) renew() {
	entries := make(map[cacheKey]*list.Element, len(c.entries))
	maps.Copy(entries, c.entries)
	c.entries, c.peak = entries, len(entries)
}

// unused reports whether there is an entry that was not used in this round; c.mu is held.
func (c *BodyCache) unused() bool {
	e := c.recent.Back()
	if e == nil {
		return false
	}
	last, _ := e.Value.(*cached)
	return last.round < c.round
}

// shrink drops what was not used for longest until the limit is kept; c.mu is held.
func (c *BodyCache) shrink() {
	for c.bytes > c.maxBytes {
		c.drop(c.recent.Back())
	}
}

// drop keeps the bytes in step; c.mu is held.
func (c *BodyCache) drop(e *list.Element) {
	old, _ := c.recent.Remove(e).(*cached)
	delete(c.entries, old.key)
	c.bytes -= old.bodies.memoryBytes()
}

// forget drops a group's entries, when its member is closed.
func (c *BodyCache) forget(g id.GroupID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, e := range c.entries {
		if k.group == g {
			c.drop(e)
		}
	}
}
