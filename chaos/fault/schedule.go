package fault

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Step is one fault of a schedule.
type Step struct {
	At   time.Duration // since the schedule's beginning
	Kind string
	Role Role
	For  time.Duration // until it is healed
	Pick uint64        // chooses among nodes of the role, and what the kind leaves open
	// Beside means that the fault may come while others last; without it, it waits until all are healed and their
	// nodes are ready.
	Beside bool
}

const (
	calm        = 3 * time.Second // before the first fault and after the last
	meanSpacing = 6 * time.Second
	besideOf    = 3 // one fault in so many comes beside the one before
)

// Each returns one fault of each kind, one after another, for the shortest time that is at least
// a second, or the longest that the kind allows.
func Each(kinds []Kind, seed uint64) []Step {
	r := rand.New(rand.NewPCG(seed, 0))
	out := make([]Step, 0, len(kinds))
	for _, k := range kinds {
		s := Step{At: calm, Kind: k.Name, Role: Leader, For: min(max(time.Second, k.Shortest), k.Longest), Pick: r.Uint64()}
		if len(k.Roles) > 0 {
			s.Role = k.Roles[0]
		}
		out = append(out, s)
	}
	return out
}

// Schedule returns the faults of these kinds for a run of this length: the same ones for the
// same seed. Every kind comes before one comes twice, so a run that is long enough has all. The long ones come in every other
// such round.
func Schedule(kinds []Kind, seed uint64, length time.Duration) []Step {
	if len(kinds) == 0 {
		return nil
	}
	r := rand.New(rand.NewPCG(seed, 0))
	var out []Step
	var deck []Kind
	round := 0
	for at := calm; at < length-calm; at += meanSpacing/2 + time.Duration(r.Int64N(int64(meanSpacing))) {
		if len(deck) == 0 {
			deck = deal(kinds, round)
			round++
			r.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		k := deck[len(deck)-1]
		deck = deck[:len(deck)-1]
		of := k.Roles
		if len(of) == 0 {
			of = roles()
		}
		out = append(out, Step{
			At: at, Kind: k.Name, Role: of[r.IntN(len(of))],
			For:  k.Shortest + time.Duration(r.Int64N(int64(k.Longest-k.Shortest)+1)),
			Pick: r.Uint64(), Beside: r.IntN(besideOf) == 0 && len(out) > 0,
		})
	}
	return out
}

// deal returns the kinds that come in a round.
func deal(kinds []Kind, round int) []Kind {
	short := slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool { return k.Long })
	if round%2 == 0 || len(short) == 0 {
		return slices.Clone(kinds)
	}
	return short
}
