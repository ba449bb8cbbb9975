package raftfsm

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestHold(t *testing.T) {
	const ms = time.Millisecond
	at := time.Unix(1000, 0)
	for _, c := range []struct {
		name           string
		last, messages int
		took, since    time.Duration
		want           time.Duration
	}{
		{"nothing before", 0, 1, 0, time.Hour, 0},
		{"one after one", 1, 1, ms, 0, 0},
		{"one below the least", 200, gatherMessages - 201, ms, 0, 0},
		{"the least", 200, gatherMessages - 200, ms / 2, 0, ms},
		{"all in the queue", 0, gatherMessages, ms / 2, ms / 4, ms - ms/4},
		{"slow", 300, 1, 100 * ms, 0, gatherMost},
		{"slow, some time ago", 300, 1, 100 * ms, gatherMost, 0},
		{"long ago", 300, 1, ms / 2, time.Hour, 0},
	} {
		g := gathering{last: c.last, messages: c.messages, took: c.took, left: at}
		if got := g.hold(at.Add(c.since)); got != c.want {
			t.Errorf("%s: held for %v, want %v", c.name, got, c.want)
		}
	}
}

// gatherer is a proposer without raft whose steps the test runs.
type gatherer struct {
	proposer[int]
	steps int // asked for
}

func newGatherer() *gatherer {
	g := &gatherer{}
	g.pipeline = new(Pipeline)
	g.limits = limits{inFlight: 8, commands: 10, bytes: 4000}
	g.begin = func() { g.steps++ }
	return g
}

// submit queues commands of so many messages of a byte, and returns the entries' sizes in
// commands that a step makes, if one is asked for.
func (g *gatherer) submit(commands, messages int) (entries []int) {
	for range commands {
		c := Command{Bodies: make([][]byte, messages)}
		g.mu.Lock()
		wake := g.add(item[int]{command: c, bytes: int64(messages)})
		g.mu.Unlock()
		if wake {
			entries = append(entries, g.step()...)
		}
	}
	return entries
}

func (g *gatherer) step() (entries []int) {
	for f := g.next(); f != nil; f = g.next() {
		entries = append(entries, len(f.items))
	}
	return entries
}

// applied lands the oldest entry in flight, and runs the step that it asks for.
func (g *gatherer) applied() (entries []int) {
	g.mu.Lock()
	f := g.inFlight[0]
	g.mu.Unlock()
	g.land(f.term, f.seq)
	return g.asking()
}

// asking runs the step that was asked for since the last one, if any.
func (g *gatherer) asking() []int {
	if g.asked.Swap(0) == 0 {
		return nil
	}
	return g.step()
}

// Under load what comes while an entry is on its way, and as long again, shares the next.
func TestGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGatherer()
		want := func(what string, got []int, entries ...int) {
			t.Helper()
			if len(got) != len(entries) {
				t.Fatalf("%s: entries of %v commands, want %v", what, got, entries)
			}
			for i := range got {
				if got[i] != entries[i] {
					t.Fatalf("%s: entries of %v commands, want %v", what, got, entries)
				}
			}
		}
		want("the first", g.submit(1, 300), 1)
		time.Sleep(500 * time.Microsecond)
		want("nothing waits", g.applied())
		want("too early", g.submit(3, 100))
		time.Sleep(499 * time.Microsecond)
		want("still", g.submit(1, 1))
		want("no step", g.asking())
		time.Sleep(time.Microsecond)
		synctest.Wait()
		want("in time", g.asking(), 4)

		time.Sleep(3 * gatherMost)
		want("applied late", g.applied())
		want("not held for what was long ago", g.submit(1, 300), 1)
		want("held although an entry is on its way", g.submit(1, 1))
		time.Sleep(gatherMost)
		synctest.Wait()
		want("not for longer", g.asking(), 1)

		want("what fills an entry is not held", g.submit(g.limits.commands, 300), g.limits.commands)
		want("nor what has its bytes", g.submit(1, int(g.limits.bytes)), 1)
		time.Sleep(time.Second)
		synctest.Wait()
		for range len(g.inFlight) {
			g.applied()
		}
		want("few", g.submit(1, 1), 1)
		want("few again, at once", g.submit(1, 1), 1)
		if len(g.queue) != 0 || g.queued != 0 || g.gather.messages != 0 {
			t.Fatalf("of an empty queue it counts %d commands, %d bytes, %d messages", len(g.queue), g.queued, g.gather.messages)
		}
	})
}

// Clients that wait for their answers are not held up for long.
func TestGathersNotInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGatherer()
		const clients, rounds = 4, 3000
		held := 0
		g.submit(clients, 300)
		for range rounds {
			time.Sleep(500 * time.Microsecond)
			left := 0
			for range len(g.inFlight) {
				left += len(g.applied())
			}
			if left += len(g.submit(clients, 300)); left == 0 {
				held++
				time.Sleep(gatherMost)
				synctest.Wait()
				if len(g.asking()) != 1 {
					t.Fatal("what was held does not leave")
				}
			}
		}
		if held < 2 || held > rounds/50 {
			t.Fatalf("%d of %d rounds were held", held, rounds)
		}
	})
}
