package quorumq

import "testing"

// TestBudgetIsOfTheEntry shows that the commands of one entry share what may be taken off, and that
// a new message may always replace one other. By RulesFirst each command has its own budget.
func TestBudgetIsOfTheEntry(t *testing.T) {
	var b budget
	b.begin(1)
	b.spent += ExpireSlice - 1
	b.begin(1)
	if n := b.slice(RulesThird); n != 1 {
		t.Errorf("%d are left for the second command", n)
	}
	b.granted = true
	dropped := 0
	for b.drop(RulesThird) {
		dropped++
	}
	if dropped != 2 || b.spent != ExpireSlice {
		t.Errorf("dropped %d, want one for a message and one of the slice; spent %d", dropped, b.spent)
	}
	if n := b.slice(RulesFirst); n != ExpireChunk || !b.drop(RulesFirst) {
		t.Errorf("%d are left by the first rules", n)
	}
	if b.begin(2); b.slice(RulesThird) != ExpireSlice {
		t.Error("another entry has no slice of its own")
	}
}

// TestLengthOfLimits shows what each limit counts (LEN-1, LEN-2, LEN-8), and when a queue refuses
// what would exceed a limit (LEN-4, DL-20).
func TestLengthOfLimits(t *testing.T) {
	none := Config{MaxLength: Unlimited, MaxLengthBytes: Unlimited, MaxLengthTotal: Unlimited}
	l := length{messages: 10, bytes: 100, unacked: 5}
	for _, tc := range []struct {
		name             string
		set              func(*Config)
		messages, bytes  uint64
		exceeds, refuses bool
	}{
		{"no limit", func(*Config) {}, 1 << 40, 1 << 40, false, false},
		{"room", func(c *Config) { c.MaxLength = 11 }, 1, 0, false, false},
		{"messages", func(c *Config) { c.MaxLength = 10 }, 1, 0, true, false},
		{"bytes", func(c *Config) { c.MaxLengthBytes = 100 }, 0, 1, true, false},
		{"no bytes", func(c *Config) { c.MaxLengthBytes = 100 }, 1, 0, false, false},
		{"all", func(c *Config) { c.MaxLengthTotal = 15 }, 1, 0, true, false},
		{"room for all", func(c *Config) { c.MaxLengthTotal = 16 }, 1, 0, false, false},
		{"refused", func(c *Config) { c.MaxLength, c.Overflow = 10, OverflowRejectPublish }, 1, 0, true, true},
		{"full backlog", func(c *Config) { c.MaxLength, c.DeadLetter, c.BacklogLimit = 10, DeadLetterAtLeastOnce, 3 }, 1, 0, true, true},
		{"backlog with room", func(c *Config) { c.MaxLength, c.DeadLetter, c.BacklogLimit = 10, DeadLetterAtLeastOnce, 4 }, 1, 0, true, false},
	} {
		c := none
		tc.set(&c)
		if got := l.exceeds(&c, tc.messages, tc.bytes); got != tc.exceeds {
			t.Errorf("%s: exceeds %t", tc.name, got)
		}
		if got := c.refuses(3) && l.exceeds(&c, tc.messages, tc.bytes); got != tc.refuses {
			t.Errorf("%s: refuses %t", tc.name, got)
		}
	}
}

// TestUnitsFollowOneAnother shows where units begin and end in a batch (PUB-9).
func TestUnitsFollowOneAnother(t *testing.T) {
	ms := []NewMessage{{}, {Joined: true}, {Joined: true}, {}, {Joined: true}, {}, {}}
	var u unit
	var begun []int
	var joined []bool
	for i := range ms {
		begun = append(begun, len(u.next(ms[i:], false)))
		joined = append(joined, u.joined)
	}
	for i, want := range []int{0, 3, 0, 0, 2, 0, 0} {
		if begun[i] != want || joined[i] != (i >= 1 && i <= 5) {
			t.Errorf("message %d begins a unit of %d, joined %t", i, begun[i], joined[i])
		}
	}
	if n, ok := unitBytes([]NewMessage{{Size: 1}, {Size: 2}}); n != 3 || !ok {
		t.Errorf("%d bytes, %t", n, ok)
	}
	if _, ok := unitBytes([]NewMessage{{Size: 1}, {Size: VoidSize}}); ok {
		t.Error("a unit with a void has a size")
	}
	u = unit{}
	if u.next(ms[1:], true) != nil || u.joined {
		t.Error("a repeat begins a unit")
	}
}

// TestIdleEnds shows when a queue is deleted because nobody uses it (QX-1, QX-4, Q-5).
func TestIdleEnds(t *testing.T) {
	c := Config{ExpiresMs: 50, ExpiresIfEmpty: true}
	i := idle{used: 7}
	if i.ends(&c, 1) || !i.ends(&c, 0) || i.end(&c) != 57 {
		t.Errorf("ends with a message %t, at %d", i.ends(&c, 1), i.end(&c))
	}
	if i.consumed = true; !i.ends(&c, 1) || i.end(&c) != 7 {
		t.Errorf("once consumed it ends at %d", i.end(&c))
	}
	if i = (idle{consumed: true}); i.end(&c) != 1 {
		t.Error("0 says that it never ends")
	}
}
