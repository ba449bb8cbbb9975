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
	// enough is how many syncs or confirms a look needs, and enoughUsual a comparison at the floor, in which chance would
	// count for longer; with fewer, more are waited for.
	enough, enoughUsual = 30, 300
	// tail is the part of all syncs and confirms that take no longer than what is compared.
	tail = 0.95
	// felt is how much longer than usual syncs and confirms may take.
	felt = 1.3
	// slack is how much longer they may take in any case: differences of this size are chance.
	slack = 200 * time.Microsecond
)

// signal is something of which the node counts how long it takes. Pacer.mu guards it.
type signal struct {
	cause Cause
	from  func() *latency.Histogram

	before latency.Counts // at the last comparison
	usual  time.Duration  // how long it takes while exports read at the floor; 0: it is not known
}

// restart leaves out what was counted until now.
func (s *signal) restart() { s.before = s.from().Counts() }

// excess returns how long it took, divided by what clients do not feel: above 1 they do. 0: it is not known.
func (s *signal) excess() float64 {
	took, n := s.took(enough)
	if n < enough || s.usual == 0 {
		return 0
	}
	return float64(took) / (float64(s.usual)*felt + float64(slack))
}

// compare records how long it takes while exports read at the floor, as they have since restart. It returns false if
// more has to be counted first; last means that there is no time for that.
func (s *signal) compare(last bool) bool {
	least := uint64(enoughUsual)
	if last {
		least = enough
	}
	took, n := s.took(least)
	switch {
	case n < least:
		return last || n == 0
	case s.usual == 0, took < s.usual:
		s.usual = took
	default: // a single time that it took longer may be chance, and exports would read too fast until the next one
		s.usual += (took - s.usual) / 4
	}
	return true
}

// took returns how many were counted since the last time, and how long they took. Fewer than least are left for the next
// time.
func (s *signal) took(least uint64) (d time.Duration, n uint64) {
	now := s.from().Counts()
	since := now.Since(&s.before)
	if n = since.All(); n < least {
		return 0, n
	}
	s.before = now
	d, _ = since.Quantile(tail)
	return d, n
}
