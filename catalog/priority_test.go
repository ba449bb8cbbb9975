package catalog_test

import (
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
)

// PR-1: a level for each priority that a queue distinguishes, in their order.
func TestPriorities(t *testing.T) {
	classic := func(highest int64) *catalog.QueueRecord {
		return &catalog.QueueRecord{Type: catalog.QueueClassic, Arguments: message.Table{{Name: "x-max-priority", Value: message.Int64(highest)}}}
	}
	for name, c := range map[string]struct {
		queue *catalog.QueueRecord
		level map[int16]uint8 // by what is asked for; -1: nothing
	}{
		"quorum":  {&catalog.QueueRecord{Type: catalog.QueueQuorum}, map[int16]uint8{-1: 4, 0: 0, 4: 4, 31: 31, 32: 31, 255: 31}},
		"classic": {&catalog.QueueRecord{Type: catalog.QueueClassic}, map[int16]uint8{-1: 4, 0: 4, 9: 4, 255: 4}},
		"of 0":    {classic(0), map[int16]uint8{-1: 4, 0: 4, 255: 4}},
		"of 10":   {classic(10), map[int16]uint8{-1: 0, 0: 0, 4: 4, 10: 10, 11: 10, 255: 10}},
		"of 31":   {classic(31), map[int16]uint8{-1: 0, 16: 16, 31: 31, 255: 31}},
		"of 32":   {classic(32), map[int16]uint8{-1: 0, 15: 15, 16: 16, 32: 31, 255: 31}},
		"of 255":  {classic(255), map[int16]uint8{-1: 0, 1: 1, 2: 2, 15: 15, 16: 16, 100: 21, 200: 27, 254: 30, 255: 31}},
	} {
		for asked, want := range c.level {
			if got := c.queue.Priorities().Level(asked); got != want {
				t.Errorf("%s: priority %d has level %d, want %d", name, asked, got, want)
			}
		}
	}
	for highest := range int64(256) {
		p := classic(highest).Priorities()
		for asked := range int16(255) {
			if a, b := p.Level(asked), p.Level(asked+1); a > b || b > 31 {
				t.Fatalf("of %d: priority %d has level %d, the next one %d", highest, asked, a, b)
			}
		}
	}
}
