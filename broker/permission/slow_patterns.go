package permission

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/internal/lograte"
	"github.com/quorate/quorate/internal/pattern"
)

// Bounds of what patterns of permissions that take too long may cost (C-8). Names are the
// clients' choice, and each that takes too long takes three times pattern.Limit of a processor.
const (
	// SlowMatches is how many matches of one user's permissions may be broken off at once, and
	// SlowMatchEvery after what time there may be one more: a tenth of a processor.
	SlowMatches    = 10
	SlowMatchEvery = 10 * 3 * pattern.Limit
	// maxSlowNames bounds the names whose answer is kept, of one pattern that has been too slow.
	maxSlowNames = 1024
	// maxSlowUsers bounds the users whose budget is kept.
	maxSlowUsers = 10_000
	// A name whose match was broken off is tried again after firstRetry, then after twice that
	// and so on, at most mostRetry.
	firstRetry = time.Second
	mostRetry  = time.Minute
	// SlowMatchLines is how many lines the log has about that at once, and SlowMatchLineEvery after
	// what time there is one more.
	SlowMatchLines     = 20
	SlowMatchLineEvery = 5 * time.Second
)

// slowPattern is a pattern of which a match was broken off, with its answers since.
type slowPattern struct {
	mu      sync.Mutex
	answers map[string]slowAnswer // by name
}

// slowAnswer is the answer of a slow pattern about a name: whether it matches, or that the match was broken off, tries
// times in a row.
type slowAnswer struct {
	matched bool
	again   time.Time // when to try again; zero: never
	tries   int
}

// recall returns the answer about a name, if it is known.
func (s *slowPattern) recall(name string) (slowAnswer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, known := s.answers[name]
	return a, known
}

// keep remembers an answer. Above maxSlowNames all are forgotten: clients choose names, and no order of them is worth its
// memory.
func (s *slowPattern) keep(name string, a slowAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answers == nil || len(s.answers) >= maxSlowNames {
		s.answers = map[string]slowAnswer{}
	}
	s.answers[name] = a
}

// slowBudgets are what users may still spend on patterns that are slow, and where that is logged. mu guards all.
type slowBudgets struct {
	mu       sync.Mutex
	all      map[string]*slowBudget // by user
	timeouts *atomic.Uint64
	log      *slog.Logger
	lines    lograte.Lines
}

func newSlowBudgets(timeouts *atomic.Uint64, log *slog.Logger) slowBudgets {
	return slowBudgets{timeouts: timeouts, log: log, lines: lograte.Lines{Burst: SlowMatchLines, Every: SlowMatchLineEvery}}
}

// slowBudget is what one user may still spend, in matches.
type slowBudget struct {
	left float64
	at   time.Time // when left was counted
}

// take spends one match of a user's, if there is one left.
func (b *slowBudgets) take(user string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := b.all[user]
	if x == nil {
		if b.all == nil || len(b.all) >= maxSlowUsers {
			b.all = map[string]*slowBudget{}
		}
		x = &slowBudget{left: SlowMatches, at: now}
		b.all[user] = x
	}
	x.left = min(SlowMatches, x.left+float64(now.Sub(x.at))/float64(SlowMatchEvery))
	x.at = now
	if x.left < 1 {
		return false
	}
	x.left--
	return true
}

// giveBack returns one that was quick after all.
func (b *slowBudgets) giveBack(user string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x := b.all[user]; x != nil {
		x.left = min(SlowMatches, x.left+1)
	}
}
