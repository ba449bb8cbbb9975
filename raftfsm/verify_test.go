package raftfsm

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A leader finds out whether it is one without writing anything; one that was replaced, or hears
// from a minority alone, does not.
func TestVerify(t *testing.T) {
	t.Parallel()
	c := newDriven(t, nil)
	c.propose("one")
	c.equal()
	l := c.leader()
	before := l.group.Stats().LastIndex
	for range 3 {
		if err := l.group.Verify(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if after := l.group.Stats().LastIndex; after != before {
		t.Errorf("the log went from %d to %d", before, after)
	}
	var not *NotLeaderError
	if err := c.follower().group.Verify(t.Context()); !errors.As(err, &not) {
		t.Errorf("at a follower: %v", err)
	}

	c.disconnect(l)
	short, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := l.group.Verify(short); err == nil {
		t.Error("a leader that is alone believes that it leads")
	}
	next := c.members[1]
	if next == l {
		next = c.members[2]
	}
	if err := next.group.Campaign(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "the other leader verifies", func() bool { return next.group.Verify(t.Context()) == nil })
	// The old leader reaches the others again, and learns of the new term.
	c.connect(l)
	if err := l.group.Verify(t.Context()); err == nil {
		t.Error("a leader that was replaced believes that it leads")
	}
}

// The only voter is its own majority.
func TestVerifyAlone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	c.propose("one")
	until(t, "it verifies", func() bool { return c.leader().group.Verify(t.Context()) == nil })
}
