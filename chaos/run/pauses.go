package run

import (
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/chaos/history"
)

// AllTogether is the class of a Pause of all publishers together: nobody was confirmed anything.
const AllTogether = "all together"

// Pause is the longest time without a confirm that a publisher of a class saw, counted from its first confirm on.
type Pause struct {
	Class   string // of the client, as in history.Event, or AllTogether
	Longest time.Duration
}

// pauses follows how long publishers wait for confirms. One goroutine alone uses it.
type pauses struct {
	last    map[int]confirm          // of each publisher
	newest  time.Duration            // when anybody was confirmed something last; 0: nobody was yet
	longest map[string]time.Duration // since the last look, by class
}

// confirm is when a publisher of a class was confirmed something.
type confirm struct {
	class string
	at    time.Duration
}

func newPauses() *pauses {
	return &pauses{last: map[int]confirm{}, longest: map[string]time.Duration{}}
}

// confirmed takes a confirm; those of all publishers come in the order of their times.
func (p *pauses) confirmed(e *history.Event) {
	if before, is := p.last[e.Publisher]; is {
		p.waited(e.Client, e.At-before.at)
	}
	if p.newest > 0 {
		p.waited(AllTogether, e.At-p.newest)
	}
	p.last[e.Publisher], p.newest = confirm{e.Client, e.At}, e.At
}

// waited records how long a publisher of the class waited.
func (p *pauses) waited(class string, d time.Duration) { p.longest[class] = max(p.longest[class], d) }

// look returns the longest pauses since the last look, with those that have not ended, in the order of their
// classes.
func (p *pauses) look(now time.Duration) []Pause {
	for _, c := range p.last {
		p.waited(c.class, now-c.at)
	}
	if p.newest > 0 {
		p.waited(AllTogether, now-p.newest)
	}
	var out []Pause
	for _, class := range slices.Sorted(maps.Keys(p.longest)) {
		out = append(out, Pause{class, p.longest[class]})
	}
	clear(p.longest)
	return out
}
