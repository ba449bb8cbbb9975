package clock

import (
	"slices"
	"time"

	"github.com/quorate/quorate/id"
)

const (
	// presumeAfter is how long a node waits for others who know the time before it trusts the lowest wall clock in
	// reach.
	presumeAfter = 3 * time.Second
	// doubtFor is for how long a starting node does not believe others whose time differs from its own wall clock: a
	// majority of wall clocks may be known with the next heartbeat.
	doubtFor = time.Second
	// stepLeast is the least change of a wall clock at once that is reported as a step.
	stepLeast = 50 * time.Millisecond
	// jumpAfter is for how long clocks must show the same before the clock is set to it: of
	// a machine that was paused some see a new wall clock before they have measured it anew.
	jumpAfter = 600 * time.Millisecond
	// nearEnough is how far apart the clocks of the cluster of nodes without a trusted wall clock may be:
	// measurements are not exact, and always following the lower one would make all of them slow.
	nearEnough = 20 * time.Millisecond
)

// Steering keeps a node's clock of the cluster. It belongs to one goroutine, or mutex.
type Steering struct {
	limit time.Duration // by how much wall clocks may differ and still agree
	began time.Duration
	line  Line
	wall  time.Duration // offset of the own wall clock, as last seen
	peers map[id.NodeID]*peer
	far   struct {
		is            bool // where the clock should be is beyond the limit
		since, target time.Duration
	}
}

// NewSteering starts a clock of the cluster by the node's own wall clock; it is unsynchronized. It
// keeps to half of the skew limit: what one leader has stamped is due by the clock of the next
// one, and the two may be off in opposite directions.
func NewSteering(limit time.Duration, r Reading) *Steering {
	own := r.Wall - r.Elapsed
	return &Steering{
		limit: limit / 2, began: r.Elapsed, wall: own, peers: map[id.NodeID]*peer{},
		line: Line{at: r.Elapsed, offset: own},
	}
}

// Line returns the clock of the cluster as it was steered last.
func (s *Steering) Line() Line { return s.line }

// Restarted forgets what was measured of a peer: its monotonic clock starts over.
func (s *Steering) Restarted(n id.NodeID) { delete(s.peers, n) }

// Keep forgets peers that are no longer in the cluster.
func (s *Steering) Keep(is func(id.NodeID) bool) {
	for n := range s.peers {
		if !is(n) {
			delete(s.peers, n)
		}
	}
}

// Heard records what a peer reports about its clocks and, unless m is nil, what was measured.
func (s *Steering) Heard(n id.NodeID, now time.Duration, c Claim, m *Measured) {
	p := s.peers[n]
	if p == nil {
		p = &peer{}
		s.peers[n] = p
	}
	p.claim, p.heard = c, now
	if m != nil {
		p.measured(now, *m)
	}
}

// Measured returns what is known of a peer's monotonic clock, for the peer to know it too.
func (s *Steering) Measured(n id.NodeID, now time.Duration) (Measured, bool) {
	if p := s.peers[n]; p != nil {
		return p.best(now, s.limit)
	}
	return Measured{}, false
}

// Outcome is what steering found.
type Outcome struct {
	Step time.Duration // the own wall clock was set by so much since the last time
	Jump time.Duration // by how much the clock of the cluster was set; 0: not set
	// Agree is how many wall clocks, the own one included, agree with the majority, of Known.
	Agree, Known int
	Confirmed    bool // so many are a majority of the cluster's
}

// Steer decides how the clock of the cluster advances, in a cluster of so many nodes.
func (s *Steering) Steer(r Reading, nodes int) Outcome {
	own := r.Wall - r.Elapsed
	var o Outcome
	if step := own - s.wall; step.Abs() >= stepLeast {
		o.Step = step
	}
	s.wall = own
	walls, clocks := s.inReach(r.Elapsed)
	walls = append(walls, own)
	slices.Sort(walls)
	target, agree := consensus(walls, s.limit)
	confirmed := 2*agree > nodes
	o.Agree, o.Known, o.Confirmed = agree, len(walls), confirmed
	now := s.line.Offset(r.Elapsed)
	if g, to := s.gradeAndPlace(r.Elapsed, confirmed, target, walls, clocks); g > s.line.Grade {
		o.Jump = s.jump(r.Elapsed, to)
		s.line.Grade = g
		return o
	}
	switch {
	case s.line.Grade == Unsynchronized:
		return o
	case !confirmed:
		target = s.goOn(now, walls, clocks)
	}
	switch off := target - now; {
	case off.Abs() <= s.limit:
		s.far.is = false
		s.slew(r.Elapsed, off, max(slewLeast, off.Abs()*slewShare))
	case nodes > 1:
		if s.lasts(r.Elapsed, target) {
			o.Jump = s.jump(r.Elapsed, target)
		}
	default:
		// The only clock there is was set. It may be right now, or may have been before.
		s.slew(r.Elapsed, off, off.Abs()*farShare)
	}
	return o
}

// known is a peer's clock of the cluster.
type known struct {
	offset time.Duration
	grade  Grade
}

// inReach returns the wall clocks of peers, and their clocks of the cluster, as offsets to
// this node's monotonic clock.
func (s *Steering) inReach(now time.Duration) (walls []time.Duration, clocks []known) {
	for _, p := range s.peers {
		if m, ok := p.best(now, s.limit); ok {
			walls = append(walls, m.Offset+p.claim.Wall)
			clocks = append(clocks, known{m.Offset + p.claim.Cluster, p.claim.Grade})
		}
	}
	return walls, clocks
}

// consensus returns what most of the wall clocks show, which are sorted, and how many agree
// within the limit with the one in the middle, the lower of two.
func consensus(walls []time.Duration, limit time.Duration) (target time.Duration, agree int) {
	most := walls[(len(walls)-1)/2]
	from, to := 0, len(walls)
	for most-walls[from] > limit {
		from++
	}
	for walls[to-1]-most > limit {
		to--
	}
	near := walls[from:to]
	return middle(near), len(near)
}

// middle returns the one in the middle of sorted offsets, or what is between the two.
func middle(offsets []time.Duration) time.Duration {
	low, high := offsets[(len(offsets)-1)/2], offsets[len(offsets)/2]
	return low + (high-low)/2
}

// gradeAndPlace returns the grade that the clock has by now, and where it then stands.
func (s *Steering) gradeAndPlace(now time.Duration, confirmed bool, target time.Duration, walls []time.Duration, clocks []known) (Grade, time.Duration) {
	sure := offsets(clocks, Confirmed)
	switch {
	case confirmed:
		return Confirmed, target
	case len(sure) > 0 && (now-s.began >= doubtFor || (lower(sure)-s.wall).Abs() <= s.limit):
		return Confirmed, lower(sure)
	case now-s.began >= presumeAfter:
		return Presumed, walls[0] // nothing expires early
	default:
		return Unsynchronized, 0
	}
}

// goOn returns where the clock should be when no majority of wall clocks is known: where those
// are that have not left it; without any, where the nodes in reach have theirs, so that they
// stay together.
func (s *Steering) goOn(now time.Duration, walls []time.Duration, clocks []known) time.Duration {
	near := slices.DeleteFunc(slices.Clone(walls), func(w time.Duration) bool { return (w - now).Abs() > s.limit })
	if len(near) > 0 {
		return middle(near)
	}
	if all := lower(append(offsets(clocks, s.line.Grade), now)); (all - now).Abs() > nearEnough {
		return all
	}
	return now
}

// offsets returns the offsets of the clocks that have a grade at least.
func offsets(clocks []known, least Grade) []time.Duration {
	var all []time.Duration
	for _, c := range clocks {
		if c.grade >= least {
			all = append(all, c.offset)
		}
	}
	return all
}

// lower returns the one in the middle, the lower of two.
func lower(offsets []time.Duration) time.Duration {
	slices.Sort(offsets)
	return offsets[(len(offsets)-1)/2]
}

// lasts reports whether the clock should have been there for long enough to be set to it.
func (s *Steering) lasts(now, target time.Duration) bool {
	if f := &s.far; !f.is || (target-f.target).Abs() > s.limit {
		f.is, f.since, f.target = true, now, target
		s.slew(now, 0, slewLeast)
	}
	return now-s.far.since >= jumpAfter
}

// jump sets the clock, and returns by how much if that is not to be overlooked.
func (s *Steering) jump(now, to time.Duration) time.Duration {
	s.far.is = false
	by := to - s.line.Offset(now)
	s.line = Line{Grade: s.line.Grade, at: now, offset: to}
	if by.Abs() <= s.limit {
		return 0
	}
	return by
}

func (s *Steering) slew(now, by, over time.Duration) {
	s.line = Line{Grade: s.line.Grade, at: now, offset: s.line.Offset(now), slew: by, over: over}
}

// Shown is a node's wall clock as another one sees it.
type Shown struct {
	Node   id.NodeID
	Offset time.Duration // its wall clock less the time of the cluster
	Error  time.Duration // the possible error of that
	Grade  Grade         // of its own clock of the cluster
}

// Show returns the wall clocks of the peers in reach, in no order.
func (s *Steering) Show(now time.Duration) []Shown {
	var all []Shown
	for n, p := range s.peers {
		if m, ok := p.best(now, s.limit); ok {
			all = append(all, Shown{Node: n, Offset: m.Offset + p.claim.Wall - s.line.Offset(now), Error: m.Error, Grade: p.claim.Grade})
		}
	}
	return all
}
