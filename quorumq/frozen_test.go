package quorumq

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// deepGenerator returns a generator of random commands for queues of thousands of messages.
func deepGenerator(seed uint64) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, 2)), index: 1, scale: 40}
}

// TestFrozenStateStays freezes a queue now and then while it continues to change. Each frozen state
// keeps the answers that the queue gave when it was frozen, however late it is asked. The queue
// behaves like one that is never frozen.
func TestFrozenStateStays(t *testing.T) {
	type kept struct {
		*Frozen
		state []byte
		live  []BodyRef
	}
	n := 200
	if testing.Short() {
		n = 60
	}
	for seed := range uint64(4) {
		g := deepGenerator(seed)
		c := g.config()
		q, other := New(1024, c), New(1024, c)
		g.q = q
		var frozen []kept
		verify := func(k kept) {
			if got := k.AppendSnapshot(nil); !bytes.Equal(got, k.state) {
				t.Fatalf("seed %d: a frozen state has changed", seed)
			}
			if got := frozenBodies(k.Frozen); !slices.Equal(got, k.live) {
				t.Fatalf("seed %d: bodies of a frozen state have changed", seed)
			}
		}
		for i := range n {
			cmd := g.command()
			meta := g.meta(cmd)
			want := comparable(other.Apply(meta, cmd))
			if got := comparable(q.Apply(meta, cmd)); got != want {
				t.Fatalf("seed %d: command %d: %T%+v\nnever frozen:\n%s\nfrozen:\n%s", seed, i, cmd, cmd, want, got)
			}
			if g.one(3) {
				frozen = append(frozen, kept{q.Freeze(), other.AppendSnapshot(nil), slices.Collect(other.Live())})
			}
			if len(frozen) > 5 {
				at := g.IntN(len(frozen))
				verify(frozen[at])
				frozen = slices.Delete(frozen, at, at+1)
			}
		}
		for _, k := range frozen {
			verify(k)
		}
	}
}

// TestFrozenStateIsReadByAnotherGoroutine encodes states while the queue continues: nobody writes
// to what Freeze shares, or the race detector would report it.
func TestFrozenStateIsReadByAnotherGoroutine(t *testing.T) {
	g := deepGenerator(9)
	c := g.config()
	q := New(1024, c)
	g.q = q
	states := make(chan *Frozen, 4)
	sizes := make(chan int)
	go func() {
		n := 0
		for f := range states {
			n += len(f.AppendSnapshot(nil)) + len(frozenBodies(f))
		}
		sizes <- n
	}()
	for range 100 {
		cmd := g.command()
		q.Apply(g.meta(cmd), cmd)
		states <- q.Freeze()
	}
	close(states)
	if n := <-sizes; n == 0 {
		t.Error("states are empty")
	}
}

// TestFreezeCopiesPointersOnly counts what Freeze allocates for a queue of 100,000 messages, many
// of which consumers hold: a pointer for each block.
func TestFreezeCopiesPointersOnly(t *testing.T) {
	const count = 100_000
	q := New(1024, DefaultConfig())
	for i := range uint64(20) {
		k := ConsumerKey{SessionKey: SessionKey{Node: "n1", Epoch: 1, Session: i}, Tag: 1}
		q.Apply(Meta{Index: i + 1}, &Checkout{Consumer: k})
	}
	fill(q, count, Unlimited)
	if o := q.Overview(); o.Unsettled != 20*MaxOutstanding || o.Ready < count/2 {
		t.Fatalf("%+v", o)
	}
	r := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			q.Freeze()
		}
	})
	if n := r.AllocedBytesPerOp(); n > 32<<10 {
		t.Errorf("%d bytes are copied", n)
	}
}

// TestRemovalFromPackedBlocks removes every second message from the middle of a deep queue. The
// right messages are left, and their stored form is that of a queue that never had the others in
// blocks of their own.
func TestRemovalFromPackedBlocks(t *testing.T) {
	const count = 40 * blockLen
	q := New(1024, DefaultConfig())
	d := q.store.ready.level(0)
	for i := range uint64(count) {
		d.push(i+1, message{ord: (i + 1) << ordBits, index: i + 7, size: uint32(i % 300)})
	}
	order := rand.New(rand.NewPCG(1, 1)).Perm(count)
	gone := make(map[uint64]bool)
	for _, k := range order[:count*4/5] {
		key := uint64(k + 1)
		m, ok := d.remove(key)
		if !ok || m.key() != key || m.index != key+6 || m.size != uint32(k%300) {
			t.Fatalf("key %d: %+v, %t", key, m, ok)
		}
		if _, ok := d.remove(key); ok || d.has(key) {
			t.Fatalf("key %d is there twice", key)
		}
		gone[key] = true
		if err := checkBlocks(d); err != nil {
			t.Fatal(err)
		}
	}
	key := uint64(0)
	for m := range d.all() {
		next, ok := d.next(key + 1)
		if key = m.key(); !ok || next != key || gone[key] {
			t.Fatalf("%d after %d, gone %t", next, key, gone[key])
		}
	}
	n := 0
	for k := d.len(); k > 0; k-- {
		if m := d.front(); gone[m.key()] || m.index != m.key()+6 {
			t.Fatalf("front %+v", *m)
		}
		d.pop()
		n++
	}
	if n != count-len(gone) || d.front() != nil || len(d.blocks) != 0 {
		t.Errorf("%d records, %d blocks are left", n, len(d.blocks))
	}
}

// TestColumns writes and reads back columns of every kind.
func TestColumns(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	for range 5000 {
		v := make([]uint64, 1+random.IntN(blockLen))
		step := random.Uint64N(3)
		for i := range v {
			switch random.IntN(20) {
			case 0:
				step = random.Uint64() >> random.IntN(64)
			case 1:
				step = uint64(random.IntN(3) - 1)
			}
			if i > 0 {
				v[i] = v[i-1] + step
			} else {
				v[i] = random.Uint64() >> random.IntN(64)
			}
		}
		b := appendColumn(nil, v)
		got := make([]uint64, len(v))
		rest, err := decodeColumn(append(b, "rest"...), got)
		if err != nil || string(rest) != "rest" || !slices.Equal(got, v) {
			t.Fatalf("%v becomes %v, %q, %v", v, got, rest, err)
		}
		s := beginSteps(append(b, "rest"...), len(v))
		for i, want := range v {
			if s.value != want {
				t.Fatalf("%v: step %d is %d", v, i, s.value)
			}
			if s.load(); s.left > 0 {
				s.advance(1)
			}
		}
		walk := beginSteps(append(b, "rest"...), len(v))
		if rest := walk.end(); string(rest) != "rest" {
			t.Fatalf("%v: %q behind the end", v, rest)
		}
	}
}

// frozenBodies returns the bodies of a frozen state one by one.
func frozenBodies(f *Frozen) (refs []BodyRef) {
	for r := range f.Live() {
		for i := range r.Entries {
			for s := range r.Slots {
				refs = append(refs, BodyRef{Index: r.Index + i*r.Stride, Slot: r.Slot + s})
			}
		}
	}
	return refs
}
