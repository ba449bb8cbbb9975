package raftfsm

import (
	"slices"
	"testing"
)

// While the groups of a node have many entries in flight, a group with several messages has one, and what comes
// meanwhile shares the next. Few messages leave at once, and so do many once the node has fewer entries in flight.
func TestPipeline(t *testing.T) {
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
		{"no longer few", func() []int { return g.submit(3, 1) }, []int{1}},
		{"one has landed", func() []int { return g.applied() }, nil},
		{"few are left", func() []int { return g.applied() }, []int{2}},
		{"many at once", func() []int { return g.submit(1, pipelineMessages) }, nil},
		{"another has landed", func() []int { return g.applied() }, nil},
		{"none is in flight", func() []int { return g.applied() }, []int{1}},
		{"many again", func() []int { return g.submit(1, 1) }, nil},
		{"large", func() []int {
			g.add(item[int]{bytes: pipelineBytes})
			return g.step()
		}, []int{1, 1}},
		{"all have landed", func() []int { return slices.Concat(g.applied(), g.applied(), g.applied()) }, nil},
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
