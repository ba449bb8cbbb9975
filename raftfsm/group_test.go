package raftfsm

import (
	"fmt"
	"testing"
)

func TestThreeMembersApplyTheSame(t *testing.T) {
	c := newCluster(t, 3, nil)
	for i := range 50 {
		c.propose(fmt.Sprintf("c%d", i), fmt.Sprintf("body %d", i), "second")
	}
	c.equal()
	for _, m := range c.members {
		if n := m.readable(t); n != 100 {
			t.Errorf("%s refers to %d bodies instead of 100", m.node, n)
		}
	}
	body, err := c.leader().group.Body(BodyRef{Index: c.members[0].machine.records[1].Index})
	if err != nil || string(body) != "body 0" {
		t.Errorf("body %q, %v", body, err)
	}
}
