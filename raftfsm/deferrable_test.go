package raftfsm

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// deferrably queues deferrable commands and returns the entries' sizes that a step makes, if one is
// asked for.
func (g *gatherer) deferrably(commands int) (entries []int) {
	for range commands {
		g.mu.Lock()
		wake := g.add(item[int]{command: Command{Deferrable: true}, bytes: 1})
		g.mu.Unlock()
		if wake {
			entries = append(entries, g.step()...)
		}
	}
	return entries
}

func TestDeferrable(t *testing.T) {
	pass := func(d time.Duration) {
		time.Sleep(d)
		synctest.Wait()
	}
	for _, c := range []struct {
		name string
		run  func(*gatherer) [][]int
		want [][]int
	}{
		{"alone they wait their time", func(g *gatherer) [][]int {
			out := [][]int{g.deferrably(3)}
			pass(MaxDeferral - 1)
			out = append(out, g.asking())
			pass(1)
			return append(out, g.asking())
		}, [][]int{nil, nil, {3}}},
		{"they go with the next one, ahead of it", func(g *gatherer) [][]int {
			return [][]int{g.deferrably(2), g.submit(1, 1), g.submit(1, 1)}
		}, [][]int{nil, {3}, {1}}},
		{"each waits its own time", func(g *gatherer) [][]int {
			out := [][]int{g.deferrably(1)}
			pass(MaxDeferral / 2)
			out = append(out, g.submit(1, 1), g.deferrably(1))
			pass(MaxDeferral - 1)
			out = append(out, g.asking())
			pass(1)
			return append(out, g.asking())
		}, [][]int{nil, {2}, nil, nil, {1}}},
		{"what fills an entry leaves", func(g *gatherer) [][]int {
			return [][]int{g.deferrably(g.limits.commands)}
		}, [][]int{{10}}},
		{"in a hurry they wait no longer, those after them do", func(g *gatherer) [][]int {
			out := [][]int{g.deferrably(2)}
			g.flush()
			out = append(out, g.asking(), g.deferrably(1))
			pass(MaxDeferral)
			return append(out, g.asking())
		}, [][]int{nil, {2}, nil, {1}}},
		{"a hurry for nothing is none for what comes", func(g *gatherer) [][]int {
			g.flush()
			return [][]int{g.asking(), g.deferrably(1)}
		}, [][]int{nil, nil}},
		{"what found no place in an entry waits its time", func(g *gatherer) [][]int {
			out := [][]int{g.submit(g.limits.inFlight, 1), g.submit(1, int(g.limits.bytes)), g.deferrably(1)}
			out = append(out, g.applied()) // there is a place for the one before it
			pass(MaxDeferral - 1)
			out = append(out, g.asking(), g.applied())
			pass(1)
			return append(out, g.asking())
		}, [][]int{{1, 1, 1, 1, 1, 1, 1, 1}, nil, nil, {1}, nil, nil, {1}}},
		{"an entry that is applied does not take them along", func(g *gatherer) [][]int {
			out := [][]int{g.submit(1, 1), g.deferrably(1)}
			return append(out, g.applied())
		}, [][]int{{1}, nil, nil}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGatherer()
				if got := c.run(g); !slices.EqualFunc(got, c.want, slices.Equal) {
					t.Errorf("entries of %v commands, want %v", got, c.want)
				}
				pass(MaxDeferral) // its timer is over
				g.asking()
				if len(g.queue) != 0 || g.deferrable.others != 0 || g.deferrable.due {
					t.Errorf("%d wait, %d of others, due: %v", len(g.queue), g.deferrable.others, g.deferrable.due)
				}
			})
		})
	}
}
