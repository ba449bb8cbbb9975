package lograte

import (
	"testing"
	"time"
)

func TestLines(t *testing.T) {
	const burst, every = 20, 5 * time.Second
	l := Lines{Burst: burst, Every: every}
	now := time.Unix(1_000_000, 0)
	took := 0
	for range 2 * burst {
		if _, ok := l.Take(now); ok {
			took++
		}
	}
	if took != burst {
		t.Errorf("%d lines at once, want %d", took, burst)
	}
	if skipped, ok := l.Take(now.Add(every)); !ok || skipped != burst {
		t.Errorf("%v after %d", ok, skipped)
	}
	if skipped, ok := l.Take(now.Add(24 * time.Hour)); !ok || skipped != 0 {
		t.Errorf("%v after %d", ok, skipped)
	}
}
