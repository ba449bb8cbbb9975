package incoming

import (
	"sync"
	"testing"
)

// What is taken is never more than the budget, except for what has to be; and those that wait are notified when bytes
// are given back.
func TestBudget(t *testing.T) {
	b := New(0)
	if b.Bytes() != DefaultBytes {
		t.Errorf("%d bytes", b.Bytes())
	}
	notified := 0
	b.WhenFreed(func() { notified++ })
	b.Limit(100)
	if notified != 1 || b.Take(101) || !b.Take(60) || b.Take(41) || !b.Take(40) || b.Take(1) {
		t.Errorf("notified %d times, %d of %d bytes are taken", notified, b.Used(), b.Bytes())
	}
	b.Add(1000)
	b.GiveBack(1001)
	b.NotifyFreed()
	if notified != 2 || !b.Take(1) || b.Used() != 100 {
		t.Errorf("notified %d times, %d bytes are taken", notified, b.Used())
	}
	b.GiveBack(100)
	for _, step := range []struct {
		change int64
		scarce bool
	}{{0, false}, {2, true}, {-1, true}, {-1, false}} {
		if b.Wait(step.change); b.Scarce() != step.scarce {
			t.Errorf("after %+d: scarce is %v", step.change, b.Scarce())
		}
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				if b.Take(30) {
					if used := b.Used(); used > 100 {
						t.Errorf("%d bytes are taken", used)
					}
					b.GiveBack(30)
				}
			}
		})
	}
	all.Wait()
	if b.Used() != 0 {
		t.Errorf("%d bytes are left", b.Used())
	}
}
