package permission

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/access"
	"github.com/quorate/quorate/internal/pattern"
)

// right is what a permission gives at a name (VH-6).
type right = access.Right

// The rights.
const (
	Configure = access.Configure
	Write     = access.Write
	Read      = access.Read
)

// maxCompiled bounds the permissions whose compiled patterns are kept.
const maxCompiled = 10_000

// grantKey names a permission, with exchange a topic permission.
type grantKey struct{ user, VHost, exchange string }

// Grant is a permission with its patterns.
type Grant struct {
	user     string
	record   any // the pointer from the view: another one is another permission; nil: of no catalog
	patterns access.Grant
	slow     [3]atomic.Pointer[slowPattern] // those of which a match was broken off
	budgets  *slowBudgets
}

// Matches reports whether a permission gives a right at a name. A match that is broken off is none
// (C-8), and costs its user's budget; without that the names of such a pattern which are not
// known yet are not tried.
func (g *Grant) Matches(r right, name string) bool {
	p := g.patterns[r]
	if p == nil {
		return false
	}
	s := g.slow[r].Load()
	if s == nil {
		matched, err := p.Match(name)
		if err == nil {
			return matched
		}
		g.slow[r].CompareAndSwap(nil, &slowPattern{})
		g.brokenOff(r, name, slowAnswer{}, err)
		g.budgets.take(g.user, time.Now())
		return false
	}
	return g.matchesSlowly(r, name, s)
}

// matchesSlowly is Matches for a pattern of which a match was broken off before. A match is paid for before it is tried,
// and given back if it was quick.
func (g *Grant) matchesSlowly(r right, name string, s *slowPattern) bool {
	now := time.Now()
	a, known := s.recall(name)
	if known && (a.again.IsZero() || now.Before(a.again)) {
		return a.matched
	}
	if !g.budgets.take(g.user, now) {
		if skipped, ok := g.budgets.lines.Take(now); ok {
			g.budgets.log.Warn("a permission's pattern is not tried: too many matches of its user were broken off",
				"user", g.user, "pattern", g.patterns[r].String(), "left_out", skipped)
		}
		return false
	}
	matched, err := g.patterns[r].Match(name)
	if err != nil {
		g.brokenOff(r, name, a, err)
		return false
	}
	g.budgets.giveBack(g.user)
	s.keep(name, slowAnswer{matched: matched})
	return matched
}

// brokenOff notes that a match took too long; before is what was known of the name.
func (g *Grant) brokenOff(r right, name string, before slowAnswer, err error) {
	g.budgets.timeouts.Add(1)
	now, wait := time.Now(), min(firstRetry<<min(before.tries, 10), mostRetry)
	g.slow[r].Load().keep(name, slowAnswer{again: now.Add(wait), tries: before.tries + 1})
	if skipped, ok := g.budgets.lines.Take(now); ok {
		g.budgets.log.Warn("a permission's pattern takes too long", "user", g.user, "error", err, "left_out", skipped)
	}
}

// grants keeps compiled permissions as long as they stay the same.
type grants struct {
	mu  sync.RWMutex
	all map[grantKey]*Grant

	budgets slowBudgets
}

// of returns the compiled form of a record; texts are its patterns by right.
func (g *grants) of(key grantKey, record any, texts [3]string) *Grant {
	g.mu.RLock()
	x := g.all[key]
	g.mu.RUnlock()
	if x != nil && x.record == record {
		return x
	}
	x = &Grant{user: key.user, record: record, budgets: &g.budgets}
	for i, text := range texts {
		if text == "" {
			continue // matches nothing (VH-6)
		}
		if p, err := pattern.Compile(text); err == nil { // else another build accepted it, and it matches nothing here
			x.patterns[i] = p
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all == nil || len(g.all) >= maxCompiled {
		g.all = map[grantKey]*Grant{}
	}
	g.all[key] = x
	return x
}
