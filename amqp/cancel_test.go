package amqp

import "testing"

// AM-13: a basic.cancel continues once the writer has found nothing to deliver, but not by a look from before the
// consumer was woken last: its last delivery may have come in between.
func TestCancelNeedsANewLook(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		woken, waits bool
	}{{woken: true, waits: true}, {woken: false, waits: false}} {
		c := &conn{}
		c.changed.L = &c.mu
		x := &consumer{ch: &channel{c: c}, woken: row.woken, cancels: true}
		c.mu.Lock()
		x.drainedLocked()
		c.mu.Unlock()
		if x.cancels != row.waits {
			t.Errorf("woken %v: basic.cancel waits: %v", row.woken, x.cancels)
		}
	}
}
