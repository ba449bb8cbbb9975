package quorumq

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestStoreHandlesWhatIsDue fills a store with messages that expire, that are delayed, or both, and
// lets time pass. Each is handled once, in the order of its time, and a message that expires no
// later than it is due never becomes ready again (TTL-5, DR-3).
func TestStoreHandlesWhatIsDue(t *testing.T) {
	c := &Config{MessageTTLMs: 1000}
	random := rand.New(rand.NewPCG(3, 3))
	var s store
	s.init(c)
	want := make(map[uint64]Time) // by ordinal: when it expires
	promotions := 0
	for i := range uint64(500) {
		m := s.ready.newMessage(BodyRef{Index: i + 1}, &NewMessage{Size: 1, TTLMs: int64(1 + random.IntN(2000))}, Time(i))
		s.ready.nextOrd++
		want[m.ord] = m.at + Time(min(m.ttl, 1000))
		h := held{message: m}
		switch i % 3 {
		case 0:
			s.push(&m, c)
		case 1:
			s.pushReturned(&h, c)
		case 2:
			due := Time(i) + Time(1+random.IntN(1500))
			if s.delay(&h, due, c); due < want[m.ord] {
				promotions++
			}
		}
	}
	last := Time(0)
	for now := Time(500); s.len() > 0; now += 7 {
		if !s.nothingDue(now) && s.firstDue() > now {
			t.Fatalf("something is due at %d, it is %d", s.firstDue(), now)
		}
		for {
			h, what := s.handleDue(now, c)
			if what == handledNothing {
				break
			}
			if what == handledDelay {
				promotions--
				continue
			}
			if at := want[h.ord]; at > now || at < last && at > now-7 {
				t.Fatalf("%#x expires at %d, it is %d, the one before did at %d", h.ord, at, now, last)
			}
			last = want[h.ord]
			delete(want, h.ord)
		}
		if !s.nothingDue(now) {
			t.Fatalf("at %d something is still due", now)
		}
		s.tidy(c)
		if err := s.ready.check(now); err != nil {
			t.Fatal(err)
		}
		if err := s.delays.check(now, s.ready.nextOrd); err != nil {
			t.Fatal(err)
		}
	}
	if len(want) != 0 || promotions != 0 || s.bytes() != 0 {
		t.Errorf("%d messages have not expired, %d were not made ready, %d bytes are left", len(want), promotions, s.bytes())
	}
}

// TestDelaysGoByTime shows that delayed messages leave by their time, and those with the same time
// in the order in which they were delayed, even if others between them were removed.
func TestDelaysGoByTime(t *testing.T) {
	var d delays
	d.init()
	random := rand.New(rand.NewPCG(4, 4))
	var all []delayed
	for i := range uint64(1000) {
		h := held{message: message{index: i, size: 2, ttl: Unlimited}}
		all = append(all, d.push(&h, Time(1+random.IntN(50))))
	}
	for range 500 {
		i := random.IntN(len(all))
		d.remove(all[i].number)
		all = slices.Delete(all, i, i+1)
	}
	slices.SortStableFunc(all, func(a, b delayed) int { return int(a.due - b.due) })
	for _, want := range all {
		if err := d.check(0, 1); err != nil {
			t.Fatal(err)
		}
		if got, ok := d.popFirst(); !ok || got != want {
			t.Fatalf("%+v leaves, want %+v", got, want)
		}
	}
	if _, ok := d.popFirst(); ok || d.bytes != 0 || d.next != 1001 {
		t.Errorf("%d bytes are left, the next number is %d", d.bytes, d.next)
	}
}

// TestFreshDelayIsNew shows that a message that was never ready stands behind all others when it
// becomes ready, with a TTL that begins then (DLY-1). It also marks its level, where the bodies are
// then no longer in ascending order.
func TestFreshDelayIsNew(t *testing.T) {
	c := &Config{MessageTTLMs: Unlimited}
	var s store
	s.init(c)
	s.delay(&held{message: message{ord: 4, index: 1, at: 5, ttl: 10, size: 1}}, 20, c)
	m := s.ready.newMessage(BodyRef{Index: 2}, &NewMessage{Size: 1, Priority: 4, TTLMs: Unlimited}, 6)
	s.ready.nextOrd++
	s.push(&m, c)
	if at := s.firstDue(); at != 20 {
		t.Fatalf("due at %d: its TTL has begun", at)
	}
	if !s.promote(20, c) || s.promote(20, c) {
		t.Fatal("not promoted once")
	}
	if at := s.firstDue(); at != 30 {
		t.Errorf("expires at %d, want 30", at)
	}
	if err := s.ready.check(20); err != nil {
		t.Error(err)
	}
	if first, second := s.ready.popNext(c), s.ready.popNext(c); first.index != 2 || second.index != 1 {
		t.Errorf("bodies %d, %d, want 2, 1", first.index, second.index)
	}
	if s.ready.mixed != 0 {
		t.Error("a level without messages is marked")
	}
}
