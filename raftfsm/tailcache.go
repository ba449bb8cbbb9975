package raftfsm

import (
	"sync"

	"github.com/hashicorp/raft"
)

// Bounds of the tail that a storage keeps in memory: raft reads every entry back when it
// sends it to each follower and when it applies it.
const (
	tailCacheBytes   = 1 << 20
	tailCacheEntries = 1024
)

// tailCache holds the newest entries of a log. All methods may be called concurrently.
type tailCache struct {
	mu    sync.RWMutex
	logs  []*raft.Log // contiguous
	bytes int
}

func (c *tailCache) get(index uint64, out *raft.Log) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if len(c.logs) == 0 || index < c.logs[0].Index {
		return false
	}
	at := index - c.logs[0].Index
	if at >= uint64(len(c.logs)) {
		return false
	}
	*out = *c.logs[at]
	return true
}

// add appends entries. The caller keeps its own copies: raft goes on using them.
func (c *tailCache) add(logs []*raft.Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.logs); n > 0 && logs[0].Index != c.logs[n-1].Index+1 {
		c.logs, c.bytes = nil, 0
	}
	for _, l := range logs {
		own := *l
		c.logs = append(c.logs, &own)
		c.bytes += len(l.Data)
	}
	n := 0
	for len(c.logs)-n > tailCacheEntries || c.bytes > tailCacheBytes {
		c.bytes -= len(c.logs[n].Data)
		c.logs[n] = nil
		n++
	}
	c.logs = c.logs[n:]
}

// truncate forgets the entries from an index on.
func (c *tailCache) truncate(from uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := len(c.logs); n > 0 && c.logs[n-1].Index >= from; n-- {
		c.bytes -= len(c.logs[n-1].Data)
		c.logs = c.logs[:n-1]
	}
}
