package catalog_test

import (
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
)

// After a recovery no queue gets a UID that one of the lost tail may have had, whatever the clock shows.
func TestSkipQueueUIDs(t *testing.T) {
	const known, lost = 3, 1 << 32
	for name, x := range map[string]struct{ now, least, most int64 }{
		"by the clock":                   {now: 1_795_000_000_000, least: 1_795_000_000_000, most: 1_795_000_000_000 + 10},
		"with a wrong clock":             {now: 5, least: lost, most: lost + 10_000},
		"with a clock that is far ahead": {now: 1 << 62, least: 1 << 43, most: 1<<43 + 10},
	} {
		t.Run(name, func(t *testing.T) {
			c := made(&catalog.RegisterNode{ID: "n1", Address: "a:1", Epoch: 1}, &catalog.RaiseVersion{Version: catalog.VersionSealed})
			apply := func(cmd catalog.Command) catalog.Reply {
				t.Helper()
				r := c.Apply(c.View().Index()+1, x.now, cmd)
				if r.Err != nil {
					t.Fatal(r.Err)
				}
				return r
			}
			declare := func(queue string) id.QueueUID {
				t.Helper()
				return apply(&catalog.DeclareQueue{
					VHost: "/", Name: queue, Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"n1"}, Leader: "n1",
				}).UID
			}
			last := id.QueueUID(0)
			for i := range known {
				last = declare(string(rune('a' + i)))
			}
			apply(&catalog.SkipQueueUIDs{})
			first := declare("new")
			if first <= last+lost-1 || int64(first) < x.least || int64(first) > x.most {
				t.Errorf("after %d the next queue has UID %d, want %d to %d", last, first, x.least, x.most)
			}
			apply(&catalog.SkipQueueUIDs{}) // a second recovery
			if again := declare("newer"); again < first+lost {
				t.Errorf("after UID %d a second recovery gives UID %d", first, again)
			}
			restored := catalog.New()
			if err := restored.Restore(c.AppendSnapshot(nil)); err != nil {
				t.Fatal(err)
			}
			if got, want := restored.View().NextQueueUID(), c.View().NextQueueUID(); got != want {
				t.Errorf("restored, the next UID is %d, want %d", got, want)
			}
		})
	}
}

// Builds before VersionSealed cannot read the command.
func TestSkipQueueUIDsNeedsVersion(t *testing.T) {
	c := made(&catalog.RaiseVersion{Version: catalog.VersionSealed - 1})
	before := c.View().NextQueueUID()
	r := c.Apply(c.View().Index()+1, 9000, &catalog.SkipQueueUIDs{})
	if r.Err == nil || r.Err.Code != catalog.CodePreconditionFailed || c.View().NextQueueUID() != before {
		t.Errorf("%v, and the next UID is %d, was %d", r.Err, c.View().NextQueueUID(), before)
	}
}
