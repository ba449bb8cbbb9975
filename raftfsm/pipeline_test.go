package raftfsm

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// While the groups of a node have many entries in flight, a group with several messages has one, and what comes
// meanwhile shares the next. Few messages leave at once, and so do many once the node has fewer entries in flight.
func TestPipeline(t *testing.T) { synctest.Test(t, testPipeline) }

func testPipeline(t *testing.T) {
	g := newGatherer()
	others := g.pipeline
	others.entries.Add(pipelineEntries)
	for _, row := range []struct {
		what string
		got  func() []int
		want []int
	}{
		{"the first of a group", func() []int { return g.submit(1, 1) }, []int{1}},
		{"few messages", func() []int { return g.submit(1, 1) }, []int{1}},
		{"no longer few", func() []int { return g.submit(4, 1) }, []int{1}},
		{"two have landed", func() []int { return slices.Concat(g.applied(), g.applied()) }, nil},
		{"all have landed", func() []int { return g.applied() }, []int{3}},
		{"many at once", func() []int { return g.submit(1, pipelineMessages) }, nil},
		{"none is in flight", func() []int { return g.applied() }, []int{1}},
		{"many again", func() []int { return g.submit(1, 1) }, nil},
		{"large", func() []int {
			if !g.add(item[int]{bytes: pipelineBytes}) {
				return nil
			}
			return g.step()
		}, []int{1, 1}},
		{"all have landed again", func() []int { return slices.Concat(g.applied(), g.applied(), g.applied()) }, nil},
	} {
		if got := row.got(); !slices.Equal(got, row.want) {
			t.Fatalf("%s: entries of %v commands, want %v", row.what, got, row.want)
		}
	}
	others.entries.Add(-pipelineEntries)
	if got := append(g.submit(1, pipelineMessages), g.submit(1, 1)...); !slices.Equal(got, []int{1, 1}) {
		t.Fatalf("of a node with few in flight: %v", got)
	}
	if g.applied(); others.entries.Load() != 1 || g.bodies != 1 {
		t.Fatalf("one is in flight: %d entries, %d messages", others.entries.Load(), g.bodies)
	}
	if g.applied(); others.entries.Load() != 0 || g.bodies != 0 {
		t.Fatalf("none is in flight: %d entries, %d messages", others.entries.Load(), g.bodies)
	}
}

// What waits for an entry on its way leaves when that takes long, and no step is asked for in vain when it has landed.
func TestPipelineWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGatherer()
		g.pipeline.entries.Add(pipelineEntries)
		after := func(d time.Duration) []int {
			time.Sleep(d)
			synctest.Wait()
			return g.asking()
		}
		for _, row := range []struct {
			what string
			got  func() []int
			want []int
		}{
			{"the first", func() []int { return g.submit(1, 1) }, []int{1}},
			{"some time later", func() []int { return after(pipelineMost / 2) }, nil},
			{"many", func() []int { return g.submit(1, pipelineMessages) }, nil},
			{"not yet", func() []int { return after(pipelineMost/2 - 1) }, nil},
			{"it takes long", func() []int { return after(1) }, []int{1}},
			{"more, which waits for the second", func() []int { return g.submit(2, 1) }, nil},
			{"the first has landed", func() []int { return g.applied() }, nil},
			{"not yet again", func() []int { return after(pipelineMost - 1) }, nil},
			{"the second takes long, too", func() []int { return after(1) }, []int{2}},
			{"both have landed", func() []int { return slices.Concat(g.applied(), g.applied()) }, nil},
		} {
			if got := row.got(); !slices.Equal(got, row.want) {
				t.Fatalf("%s: entries of %v commands, want %v", row.what, got, row.want)
			}
		}
		g.submit(1, pipelineMessages)
		g.submit(1, pipelineMessages)
		g.applied()
		g.applied()
		if steps := g.steps; len(after(time.Hour)) > 0 || g.steps != steps {
			t.Fatal("a step was asked for after all had landed")
		}
	})
}

// What few others came to share does not wait again for a while, which doubles.
func TestPipelineWaitsInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGatherer()
		g.pipeline.entries.Add(pipelineEntries)
		waits := func() bool {
			t.Helper()
			g.submit(1, pipelineMessages)
			waited := len(g.submit(1, 1)) == 0
			for len(g.inFlight) > 0 {
				g.applied()
			}
			return waited
		}
		for _, want := range []int{skipFirst, 2 * skipFirst, 4 * skipFirst} {
			if !waits() {
				t.Fatal("the first in vain did not wait")
			}
			for entries := 0; entries < want; entries += 2 {
				if waits() {
					t.Fatalf("waited again after %d entries, want %d", entries, want)
				}
			}
		}
		g.submit(1, pipelineMessages)
		g.submit(pipelinePays, 1)
		for len(g.inFlight) > 0 {
			g.applied()
		}
		if g.turn.vain != 0 || !waits() {
			t.Fatal("an entry of several did not end what was in vain")
		}
	})
}

// What fills an entry waits for nothing.
func TestPipelineOfFullEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGatherer()
		g.pipeline.entries.Add(pipelineEntries)
		g.submit(1, pipelineMessages)
		if got := g.submit(g.limits.commands, 1); !slices.Equal(got, []int{g.limits.commands}) {
			t.Fatalf("entries of %v commands, want one that is full", got)
		}
	})
}

// A group that ends gives back what it has in flight.
func TestPipelineAfterClose(t *testing.T) {
	g := &Group[int, struct{}]{proposer: proposer[int]{pipeline: new(Pipeline), limits: limits{inFlight: 8, commands: 10, bytes: 4000}, begin: func() {}}}
	p := &g.proposer
	p.add(item[int]{command: Command{Bodies: make([][]byte, 2)}, bytes: 1, done: func(int, error) {}})
	if p.next() == nil || p.pipeline.entries.Load() != 1 {
		t.Fatal("no entry is in flight")
	}
	p.add(item[int]{command: Command{Bodies: make([][]byte, 3)}, done: func(int, error) {}})
	g.refuseAll()
	if n := p.pipeline.entries.Load(); n != 0 || p.bodies != 0 || p.pending != 0 {
		t.Fatalf("%d entries, %d messages, %d bytes are in flight", n, p.bodies, p.pending)
	}
}
