package export

import (
	"time"

	"github.com/quorate/quorate/internal/latency"
)

// Cause is what slowed exports down.
type Cause string

// The causes.
const (
	CauseConfirms  Cause = "confirms"  // of clients of this node took longer
	CauseSyncs     Cause = "syncs"     // of the node's log took longer
	CauseProcessor Cause = "processor" // goroutines ran late
)

// Causes returns all causes.
func Causes() []Cause { return []Cause{CauseConfirms, CauseSyncs, CauseProcessor} }

const (
	// enough is how many syncs or confirms a judgement needs; with fewer, more are waited for.
	enough = 20
	// tail is the part of all syncs and confirms that take no longer than what is compared.
	tail = 0.9
	// felt is how much longer than at best syncs and confirms may take.
	felt = 1.5
	// slack is how much longer they may take in any case: differences of this size are chance.
	slack = 200 * time.Microsecond
	// forget is how the best figures approach the present ones at each look, because the load may have changed.
	forget = 0.002
)

// signal is something of which the node counts how long it takes. Pacer.mu guards it.
type signal struct {
	cause Cause
	from  func() *latency.Histogram

	before latency.Counts // at the last judgement with enough of them
	best   time.Duration  // the shortest that was seen; 0: nothing was
}

// reset forgets what was best.
func (s *signal) reset() { s.before, s.best = s.from().Counts(), 0 }

// slow reports whether what was counted since the last judgement took longer than clients may feel.
func (s *signal) slow() bool {
	now := s.from().Counts()
	since := now.Since(&s.before)
	if since.All() < enough {
		return false
	}
	s.before = now
	took, _ := since.Quantile(tail)
	if s.best == 0 || took < s.best {
		s.best = took
	}
	s.best += time.Duration(float64(took-s.best) * forget)
	return took > time.Duration(float64(s.best)*felt)+slack
}
