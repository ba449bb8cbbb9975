package permission

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/access"
	"github.com/quorate/quorate/internal/pattern"
)

// right is one of the rights that a permission gives for a name (VH-6).
type right = access.Right

// The rights.
const (
	Configure = access.Configure
	Write     = access.Write
	Read      = access.Read
)

// maxCompiled limits the permissions whose compiled patterns are kept.
const maxCompiled = 10_000

// grantKey names a permission or, with an exchange, a topic permission.
type grantKey struct{ user, VHost, exchange string }

// Grant is a permission with its compiled patterns.
type Grant struct {
	user     string
	record   any // the pointer from the view: another pointer is another permission; nil: not from the catalog
	patterns access.Grant
	slow     [3]atomic.Pointer[slowPattern] // by right; nil: no match of the pattern has taken too long
	budgets  *slowBudgets
}

// Matches reports whether a permission gives a right for a name. A match that takes too long is stopped and counts as
// no match (C-8), and it uses up some of its user's budget. When the budget is empty, such a pattern is no longer
// tried; only names with a known answer still match.
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
		g.brokenOff(r, name, slowMatch{}, err)
		g.budgets.take(g.user, time.Now())
		return false
	}
	return g.matchesSlowly(r, name, s)
}

// matchesSlowly is Matches for a pattern that has taken too long before. A match uses up budget before it is tried; a
// quick match gives it back.
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
	s.keep(name, slowMatch{matched: matched})
	return matched
}

// brokenOff records that a match took too long; before is what was known about the name.
func (g *Grant) brokenOff(r right, name string, before slowMatch, err error) {
	g.budgets.timeouts.Add(1)
	now, wait := time.Now(), min(firstRetry<<min(before.tries, 10), mostRetry)
	g.slow[r].Load().keep(name, slowMatch{again: now.Add(wait), tries: before.tries + 1})
	if skipped, ok := g.budgets.lines.Take(now); ok {
		g.budgets.log.Warn("a permission's pattern takes too long", "user", g.user, "error", err, "left_out", skipped)
	}
}

// grants keeps compiled permissions until the permissions change. mu guards all.
type grants struct {
	mu  sync.RWMutex
	all map[grantKey]*Grant

	budgets slowBudgets
}

// of returns the compiled form of a record; texts has its patterns by right.
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
		if p, err := pattern.Compile(text); err == nil { // else another build has accepted it; here it matches nothing
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
