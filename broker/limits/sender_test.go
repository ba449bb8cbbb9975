package limits

import "testing"

// VH-16: a limit of stored bytes is reported before a rate, in whatever order they are asked.
func TestStoredBeforeRates(t *testing.T) {
	l, c, p := testLimits(t)
	both := [...]func(n int64){
		func(n int64) { limitUser(t, c, MessageRate, n) },
		func(n int64) { limitVHost(t, c, StoredBytes, n) },
	}
	for _, set := range both {
		set(0)
	}
	l.vhost(c.View(), "/").holding(l.now(), 1)
	if h, held := p.held(); !held || !h.Stored {
		t.Errorf("%+v, %v", h, held)
	}
	both[1](-1)
	if h, held := p.held(); !held || h.Stored {
		t.Errorf("by the rate alone: %+v, %v", h, held)
	}
}
