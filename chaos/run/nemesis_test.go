package run

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/chaos/fault"
	"github.com/quorate/quorate/chaos/history"
)

// A fault whose healing needs the other nodes is healed behind those that hold them, whenever it is due.
func TestLastIsHealedLast(t *testing.T) {
	now := time.Now()
	n := &nemesis{open: []open{
		{name: "restart", Fault: fault.Fault{Last: true}, until: now.Add(time.Second)},
		{name: "kill", until: now.Add(4 * time.Second)},
		{name: "rebuild", Fault: fault.Fault{Last: true}, until: now},
		{name: "pause", until: now.Add(2 * time.Second)},
	}}
	for _, want := range []string{"pause", "kill", "rebuild", "restart"} {
		i, at := n.nextDue()
		if got := n.open[i]; got.name != want || at != got.until {
			t.Errorf("%s is due next, want %s", got.name, want)
		}
		n.open = append(n.open[:i:i], n.open[i+1:]...)
	}
	if i, _ := n.nextDue(); i != -1 {
		t.Errorf("%d is due", i)
	}
}

// A node may wait, when its fault is healed, for one that another fault holds; the last ones wait for all others.
func TestHealedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		n := &nemesis{cfg: Config{History: history.New(), Log: t.Logf}, healed: make(chan healed)}
		n.supervised = newSupervisor(n.cfg)
		back, broken := make(chan struct{}), errors.New("it does not heal")
		order := make(chan string, 3)
		heals := func(name string, f func()) fault.Fault {
			return fault.Fault{Last: name == "last", Heal: func(context.Context) error {
				f()
				order <- name
				if name == "first" {
					return broken
				}
				return nil
			}}
		}
		n.open = []open{
			{name: "first", Fault: heals("first", func() { <-back }), until: now.Add(time.Second)},
			{name: "second", Fault: heals("second", func() { close(back) }), until: now.Add(2 * time.Second)},
			{name: "last", Fault: heals("last", func() {}), until: now.Add(time.Second)},
		}
		err := n.healUntil(t.Context(), t.Context(), now.Add(time.Second))
		if since := time.Since(now); !errors.Is(err, broken) || since != 2*time.Second || len(n.open) > 0 || n.healing > 0 {
			t.Errorf("%v after %v, %d open, %d healing", err, since, len(n.open), n.healing)
		}
		<-order
		<-order
		if last := <-order; last != "last" {
			t.Errorf("the last one is %q", last)
		}
	})
}
