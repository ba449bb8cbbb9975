package gateway

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A queue sets its alarm at every event. There was a bug: messages that kept coming delayed the
// next try after a change of leader for seconds.
func TestAlarmIsNotPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		rings := 0
		var a alarm
		a.ring = func() {
			mu.Lock()
			defer mu.Unlock()
			a.rang()
			rings++
		}
		for range 100 {
			mu.Lock()
			a.set(time.Now(), time.Now().Add(20*time.Millisecond))
			mu.Unlock()
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if rings < 4 {
			t.Errorf("rang %d times in 100 ms, want every 20 ms", rings)
		}
		a.stop()
	})
}

// An earlier time replaces a later one, and not the reverse.
func TestAlarmRingsAtTheEarliest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		rang := make(chan time.Duration, 3)
		var a alarm
		a.ring = func() { rang <- time.Since(begin) }
		for _, in := range []time.Duration{50, 10, 90} {
			a.set(begin, begin.Add(in*time.Millisecond))
		}
		if got := <-rang; got != 10*time.Millisecond {
			t.Errorf("rang after %v, want 10ms", got)
		}
		a.rang()
		a.set(time.Now(), begin.Add(90*time.Millisecond))
		if got := <-rang; got != 90*time.Millisecond {
			t.Errorf("rang after %v, want 90ms", got)
		}
	})
}
