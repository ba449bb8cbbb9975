package quorumq

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// standing is a message of the naive order; a number of 0 means that it stands in its level and not
// among the returned messages.
type standing struct {
	held
	number uint64
}

// naiveNext returns which message would be delivered next, and which would be the next victim.
func naiveNext(all []standing, c *Config) (next, victim int) {
	oldest := func(a, b standing) int { return cmp.Compare(a.key(), b.key()) }
	first := func(order func(a, b standing) int) int {
		return slices.Index(all, slices.MinFunc(all, order))
	}
	byLevel := func(a, b standing) int { return cmp.Or(cmp.Compare(b.level(), a.level()), oldest(a, b)) }
	next = first(byLevel)
	if !c.ReturnToPlace {
		next = first(func(a, b standing) int {
			switch {
			case a.number > 0 && b.number > 0:
				return cmp.Compare(a.number, b.number)
			case a.number > 0 || b.number > 0:
				return cmp.Compare(b.number, a.number)
			}
			return byLevel(a, b)
		})
	}
	switch c.Victim {
	case VictimLowestPriority:
		return next, first(func(a, b standing) int { return cmp.Or(cmp.Compare(a.level(), b.level()), oldest(a, b)) })
	case VictimOldest:
		return next, first(oldest)
	case VictimHead:
	}
	return next, next
}

// TestReadyAgainstAList drives the order of ready messages and a plain list with the same random
// steps. Both deliver and drop the same messages, and the invariants hold after each step.
func TestReadyAgainstAList(t *testing.T) {
	for _, victim := range []Victim{VictimHead, VictimLowestPriority, VictimOldest} {
		for _, toPlace := range []bool{false, true} {
			t.Run(fmt.Sprintf("victim=%d,toPlace=%t", victim, toPlace), func(t *testing.T) {
				c := &Config{Victim: victim, ReturnToPlace: toPlace}
				readyAgainstAList(t, c, rand.New(rand.NewPCG(uint64(victim), 7)))
			})
		}
	}
}

func readyAgainstAList(t *testing.T, c *Config, random *rand.Rand) {
	var r ready
	r.init(c)
	var all []standing
	var out []held // popped: may be returned
	for range 4000 {
		switch n := random.IntN(10); {
		case n < 4 || len(all) == 0:
			m := r.newMessage(BodyRef{Index: r.nextOrd}, &NewMessage{Size: 3, Priority: uint8(random.IntN(3)), TTLMs: Unlimited}, 1)
			r.nextOrd++
			r.push(&m)
			all = append(all, standing{held: held{message: m}})
		case n < 6 && len(out) > 0:
			i := random.IntN(len(out))
			number := r.pushReturned(&out[i], c)
			all = append(all, standing{held: out[i], number: number})
			out = slices.Delete(out, i, i+1)
		case n == 6:
			i := random.IntN(len(all))
			p := Place{Order: all[i].ord, Return: all[i].number}
			if h, ok := r.removeAt(p); !ok || h.ord != p.Order {
				t.Fatalf("%+v is not where it stands: %+v", p, h)
			}
			if _, ok := r.removeAt(p); ok {
				t.Fatalf("%+v is taken twice", p)
			}
			all = slices.Delete(all, i, i+1)
		case n == 7:
			_, i := naiveNext(all, c)
			if h := r.popVictim(c); h.ord != all[i].ord {
				t.Fatalf("victim is %#x, want %#x", h.ord, all[i].ord)
			}
			all = slices.Delete(all, i, i+1)
		default:
			i, _ := naiveNext(all, c)
			if m := r.next(c); m.ord != all[i].ord {
				t.Fatalf("next is %#x, want %#x", m.ord, all[i].ord)
			}
			h := r.popNext(c)
			if h.ord != all[i].ord {
				t.Fatalf("popped %#x, want %#x", h.ord, all[i].ord)
			}
			all = slices.Delete(all, i, i+1)
			out = append(out, h)
		}
		r.tidy(c)
		if err := r.check(1); err != nil || r.len() != len(all) || r.bytes != 3*uint64(len(all)) {
			t.Fatalf("%d messages of %d bytes, want %d: %v", r.len(), r.bytes, len(all), err)
		}
	}
}

// TestWeightedRoundRobin shows the shares of three levels that never run out of messages (PR-3):
// each time, a level gets one more than its number, from the highest level down.
func TestWeightedRoundRobin(t *testing.T) {
	var r weightedRoundRobin
	got := make([]int, 0, 14)
	for range cap(got) {
		l := r.of(1<<0 | 1<<2 | 1<<3)
		r.took(l)
		got = append(got, l)
	}
	if want := []int{3, 3, 3, 3, 2, 2, 2, 0, 3, 3, 3, 3, 2, 2}; !slices.Equal(got, want) {
		t.Errorf("levels %v, want %v", got, want)
	}
}
