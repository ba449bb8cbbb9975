package raftfsm

import (
	"context"
	"testing"
	"time"
)

// deadline bounds every wait for a condition.
const deadline = 90 * time.Second

// until polls a condition.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	end := time.Now().Add(deadline)
	for !cond() {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", deadline, what)
		}
		time.Sleep(time.Millisecond)
	}
}

// receive waits for a value, or for the channel to be closed.
func receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	late := time.NewTimer(deadline)
	defer late.Stop()
	select {
	case v := <-from:
		return v
	case <-late.C:
		t.Fatalf("not within %v: %s", deadline, what)
		panic("unreachable")
	}
}

// send waits until a value is taken, or there is room for it.
func send[T any](t testing.TB, what string, to chan<- T, v T) {
	t.Helper()
	late := time.NewTimer(deadline)
	defer late.Stop()
	select {
	case to <- v:
	case <-late.C:
		t.Fatalf("not within %v: %s", deadline, what)
	}
}

// transfer hands leadership to a member, again until it has it.
func (c *testCluster) transfer(to *member) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), deadline)
	defer cancel()
	until(c.t, string(to.node)+" to lead", func() bool {
		l := c.leader()
		if l == to {
			return true
		}
		_ = l.group.TransferLeadership(ctx, to.node)
		return false
	})
}

// logState reports how the members of a test that has failed are.
func (c *testCluster) logState() {
	c.t.Helper()
	for _, m := range c.members {
		if m.group == nil {
			c.t.Logf("%s is closed", m.node)
			continue
		}
		c.t.Logf("%s: leading %v, failed %v, %+v", m.node, m.group.Leading(), m.group.Failed(), m.group.Stats())
	}
}
