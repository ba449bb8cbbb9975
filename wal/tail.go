package wal

import (
	"slices"

	"github.com/hashicorp/raft"
)

// entryOverheadBytes is what an entry in memory costs besides its bytes.
const entryOverheadBytes = 160

// tail holds the newest entries of one group: raft reads every entry back when it sends
// it to each follower and when it applies it.
type tail struct {
	logs []raft.Log // contiguous
	gone int        // entries that left in front of them, at least those whose memory is still there
}

// get copies the entry; its bytes are shared, and nobody changes them.
func (t *tail) get(index uint64, out *raft.Log) bool {
	if len(t.logs) == 0 || index < t.logs[0].Index || index-t.logs[0].Index >= uint64(len(t.logs)) {
		return false
	}
	*out = t.logs[index-t.logs[0].Index]
	return true
}

// add starts over where entries do not follow one another.
func (t *tail) add(e *raft.Log) {
	if n := len(t.logs); n > 0 && t.logs[n-1].Index+1 != e.Index {
		t.clear()
	}
	t.logs = append(t.logs, *e)
}

// from forgets entries from an index on.
func (t *tail) from(index uint64) {
	for n := len(t.logs); n > 0 && t.logs[n-1].Index >= index; n-- {
		t.logs[n-1] = raft.Log{}
		t.logs = t.logs[:n-1]
	}
	t.shrink()
}

// upTo forgets entries up to an index.
func (t *tail) upTo(index uint64) {
	for len(t.logs) > 0 && t.logs[0].Index <= index {
		t.logs[0] = raft.Log{}
		t.logs = t.logs[1:]
		t.gone++
	}
	t.shrink()
}

// goneFew is how many entries' memory a tail may keep beside that of its own, in entries and in multiples of what it has.
const goneFew, goneTimes = 64, 2

// shrink gives memory back once all entries have left, or most of them.
func (t *tail) shrink() {
	if len(t.logs) == 0 {
		t.clear()
		return
	}
	if t.gone > goneFew+goneTimes*len(t.logs) {
		t.logs, t.gone = slices.Clone(t.logs), 0
	}
}

func (t *tail) clear() { t.logs, t.gone = nil, 0 }

// tailBudget bounds the tails of all groups: the entry that was added first goes first. An
// entry that its group has forgotten already counts until its turn comes.
type tailBudget struct {
	queue []tailEntry // a ring
	head  int
	n     int
	old   int // of these, the first, which were there at the last call of age
	bytes int64
	limit int64
}

// tailEntry is an entry in the order in which entries leave the memory.
type tailEntry struct {
	group *GroupLog
	index uint64
	bytes int64
}

// add keeps the entry, and lets the oldest of all groups go until the budget is kept.
func (b *tailBudget) add(g *GroupLog, e *raft.Log) {
	bytes := int64(len(e.Data)+len(e.Extensions)) + entryOverheadBytes
	if bytes > b.limit {
		g.tail.clear()
		return
	}
	g.tail.add(e)
	if b.n == len(b.queue) {
		b.resize(2 * b.n)
	}
	b.queue[(b.head+b.n)%len(b.queue)] = tailEntry{g, e.Index, bytes}
	b.n++
	b.bytes += bytes
	b.shrink()
}

// leastQueue is the smallest ring.
const leastQueue = 64

// resize makes a ring for so many entries.
func (b *tailBudget) resize(entries int) {
	queue := make([]tailEntry, max(leastQueue, entries))
	for i := range b.n {
		queue[i] = b.queue[(b.head+i)%len(b.queue)]
	}
	b.queue, b.head = queue, 0
}

// shrink forgets the oldest entries until what is left is within the limit.
func (b *tailBudget) shrink() {
	for b.n > 0 && b.bytes > b.limit {
		b.drop()
	}
}

// drop forgets the oldest entry.
func (b *tailBudget) drop() {
	oldest := &b.queue[b.head]
	oldest.group.tail.upTo(oldest.index)
	b.bytes -= oldest.bytes
	*oldest = tailEntry{}
	b.head = (b.head + 1) % len(b.queue)
	b.n--
	b.old = max(0, b.old-1)
}

// age forgets at most so many of the entries that were there when it last returned true. It returns true when none of
// them is left.
func (b *tailBudget) age(most int) (done bool) {
	for ; b.old > 0; most-- {
		if most == 0 {
			return false
		}
		b.drop()
	}
	b.old = b.n
	switch {
	case b.n == 0:
		b.queue, b.head = nil, 0
	case 8*max(leastQueue, b.n) < len(b.queue):
		b.resize(2 * b.n)
	}
	return true
}

// ageAtOnce is how many entries AgeTail forgets at once, while appends wait.
const ageAtOnce = 1024

// AgeTail forgets the recent entries that were in memory at the call before already: raft has sent and applied them
// long ago, or reads them from the disk. An entry so stays for one to two intervals of calls. If none is left, buffers
// that wait for reuse are freed too.
func (l *Log) AgeTail() {
	for !l.ageTail() {
	}
}

// ageTail is a step of AgeTail; it returns true for the last one.
func (l *Log) ageTail() (done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.tail.age(ageAtOnce) {
		return false
	}
	if l.tail.n == 0 {
		l.buffers = nil
		if len(l.cur.chunks) == 0 {
			l.cur.data = nil
		}
	}
	return true
}

// LimitTail sets a new limit for the recent entries in memory, like Config.TailBytes. It frees
// buffers that wait for reuse.
func (l *Log) LimitTail(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail.limit = bytes
	l.tail.shrink()
	l.buffers = nil
}
