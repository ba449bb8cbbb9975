package nodeclock

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/clock"
	"github.com/quorate/quorate/cluster/event"
)

// steps is a machine whose wall clock can be set.
type steps struct {
	mu   sync.Mutex
	base time.Time
	off  time.Duration
}

func (s *steps) Elapsed() time.Duration { return time.Since(s.base) }

func (s *steps) Read() clock.Reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	return clock.Reading{Elapsed: now.Sub(s.base), Wall: time.Duration(now.UnixNano()) + s.off}
}

func (s *steps) set(off time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off = off
}

// A node that is alone has its time at the first look, and continues with it when its wall clock is set: that is
// reported as an event, and by Warning (TTL-8).
func TestWallClockIsSet(t *testing.T) {
	source := &steps{base: time.Now().Add(-time.Second)}
	k := New(Config{Node: "a", Source: source, Skew: 500 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	set, emitted := make(chan struct{}, 16), make(chan event.Event, 16)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go k.Run(ctx, time.Millisecond, Listener{
		Nodes:   func() int { return 1 },
		TimeSet: func() { set <- struct{}{} },
		Emit:    func(e event.Event) { emitted <- e },
	})
	<-set
	if w := k.Warning(); w != "" {
		t.Errorf("warning %q", w)
	}
	before := k.Moment().Time
	source.set(time.Hour)
	if e := <-emitted; e.Kind != event.ClockStepped || e.Detail[:1] != "+" {
		t.Errorf("event %+v", e)
	}
	if gone := k.Moment().Time - before; gone < 0 || gone > time.Minute {
		t.Errorf("the time of the cluster went on by %v", gone)
	}
	if f := k.Figures(); f.Steps != 1 || !f.Of("a").Off || k.Warning() == "" {
		t.Errorf("figures %+v, warning %q", f, k.Warning())
	}
}
