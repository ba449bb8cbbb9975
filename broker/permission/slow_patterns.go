package permission

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/internal/lograte"
	"github.com/quorate/quorate/internal/pattern"
)

// Limits of the cost of slow patterns of permissions (C-8). Clients choose the names; each name that takes too long
// costs three times pattern.Limit of a processor.
const (
	// SlowMatches is how many matches of one user's permissions may take too long at once. After each SlowMatchEvery
	// there may be one more. That costs a tenth of a processor.
	SlowMatches    = 10
	SlowMatchEvery = 10 * 3 * pattern.Limit
	// maxSlowNames limits the names whose answer is kept for one slow pattern.
	maxSlowNames = 1024
	// maxSlowUsers limits the users whose budget is kept.
	maxSlowUsers = 10_000
	// A name whose match took too long is tried again after firstRetry, then after twice as long each time, at most
	// after mostRetry.
	firstRetry = time.Second
	mostRetry  = time.Minute
	// SlowMatchLines is how many log lines about this can be written at once. After each SlowMatchLineEvery there can
	// be one more.
	SlowMatchLines     = 20
	SlowMatchLineEvery = 5 * time.Second
)

// slowPattern is a pattern with a match that has taken too long, and its answers since then. mu guards answers.
type slowPattern struct {
	mu      sync.Mutex
	answers map[string]slowMatch // by name
}

// slowMatch is what is known about a name and a slow pattern: whether it matches, or that the match took too long,
// tries times in a row.
type slowMatch struct {
	matched bool
	again   time.Time // when to try again; zero: never
	tries   int
}

// recall returns the answer for a name, if it is known.
func (s *slowPattern) recall(name string) (slowMatch, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, known := s.answers[name]
	return a, known
}

// keep remembers an answer. Above maxSlowNames it forgets all others: clients choose the names, so keeping an order of
// use would not pay.
func (s *slowPattern) keep(name string, a slowMatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answers == nil || len(s.answers) >= maxSlowNames {
		s.answers = map[string]slowMatch{}
	}
	s.answers[name] = a
}

// slowBudgets holds what users may still spend on slow patterns, and limits the log lines about it. mu guards all.
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

// slowBudget is how many slow matches one user may still have.
type slowBudget struct {
	left float64
	at   time.Time // when left was counted
}

// take uses up one match of a user's budget, if one is left.
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

// giveBack returns a match to the budget, because it was quick after all.
func (b *slowBudgets) giveBack(user string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x := b.all[user]; x != nil {
		x.left = min(SlowMatches, x.left+1)
	}
}
