package liveness

import "time"

// A node whose links come and go is alive at each check, and yet its groups make no progress. Such a peer is unsteady
// for a while: it gets half the patience (core.look), and no leaders are spread to it.

const (
	// fallsUnsteady is how many times within fallsWithin a peer has to fall silent, or lose its link, to be unsteady.
	fallsUnsteady = 3
	fallsWithin   = 3 * time.Second
	// firstUnsteady is for how long it is unsteady after its last fall; twice as long each time that it becomes so
	// again within longestUnsteady, which is the longest.
	firstUnsteady   = 5 * time.Second
	longestUnsteady = time.Minute
)

// steadiness is what is remembered of a peer's falls. It only computes.
type steadiness struct {
	down  bool                     // as it was seen last
	falls [fallsUnsteady]time.Time // the newest ones; next is the oldest of them
	next  int
	lasts time.Duration // for how long a fall makes it unsteady, or made it the last time; 0: it never was
	until time.Time
}

// see records whether the peer is down now. Each time that it goes down counts as a fall.
func (s *steadiness) see(now time.Time, down bool) {
	fell := down && !s.down
	s.down = down
	if !fell {
		return
	}
	s.falls[s.next] = now
	s.next = (s.next + 1) % fallsUnsteady
	oldest := s.falls[s.next]
	switch {
	case s.unsteady(now): // as long again from now on
	case oldest.IsZero() || now.Sub(oldest) > fallsWithin:
		return
	case s.lasts > 0 && now.Sub(s.until) < longestUnsteady:
		s.lasts = min(2*s.lasts, longestUnsteady)
	default:
		s.lasts = firstUnsteady
	}
	s.until = now.Add(s.lasts)
}

// unsteady reports whether the peer has fallen so often of late that it is likely to again.
func (s *steadiness) unsteady(now time.Time) bool { return now.Before(s.until) }
