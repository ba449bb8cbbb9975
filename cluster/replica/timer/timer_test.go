package timer

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// Timers fire in the order of their times. A later time replaces an earlier one, and a timer that
// is dropped does not fire.
func TestTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var fired []string
		start := time.Now()
		var ts *Timers
		set := func(q id.QueueUID, after time.Duration) {
			at := start.Add(after).UnixMilli()
			ts.Set(q, quorumq.Time(at-7), at)
		}
		onTimeSet := func() { set(5, 6*time.Second) }
		due := func(q id.QueueUID, at quorumq.Time) {
			mu.Lock()
			defer mu.Unlock()
			fired = append(fired, fmt.Sprintf("%d after %v", q, time.Since(start)))
			if want := quorumq.Time(time.Now().UnixMilli() - 7); at != want {
				t.Errorf("queue %d had asked for %d, was told %d", q, want, at)
			}
		}
		ts = New(func() int64 { return time.Now().UnixMilli() }, due, onTimeSet)
		stop := make(chan struct{})
		var running sync.WaitGroup
		running.Go(func() { ts.Run(stop) })
		set(1, 3*time.Second)
		set(2, 100*time.Millisecond)
		set(3, 200*time.Millisecond)
		set(4, 10*time.Millisecond)
		ts.Drop(4)
		set(3, 5*time.Second)
		set(1, 50*time.Millisecond)
		set(5, time.Hour)
		ts.TimeSet() // the time of the cluster was set
		three := quorumq.Time(start.Add(5*time.Second).UnixMilli() - 7)
		ts.Again(3, three-1, 1) // the queue has asked for another time since
		time.Sleep(10 * time.Second)
		synctest.Wait()
		close(stop)
		running.Wait()
		want := []string{"1 after 50ms", "2 after 100ms", "3 after 5s", "5 after 6s"}
		if !slices.Equal(fired, want) {
			t.Errorf("fired %q, want %q", fired, want)
		}
		if len(ts.where) != 0 || len(ts.heap) != 0 {
			t.Errorf("left %v", ts.where)
		}
	})
}

// A queue that hibernates, of which nobody knows the time, wakes when it would have woken, although the cluster's time was
// set back meanwhile. Where that was set forward it wakes by the new time.
func TestTimersOfSleepers(t *testing.T) {
	for name, x := range map[string]struct {
		set  time.Duration
		want string
	}{"back": {-time.Hour, "1 after 10s"}, "forward": {5 * time.Second, "1 after 5s"}, "far forward": {time.Hour, "1 after 2s"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var off atomic.Int64
				fired := make(chan string, 2)
				start := time.Now()
				now := func() int64 { return time.Now().Add(time.Duration(off.Load())).UnixMilli() }
				var ts *Timers
				ts = New(now, func(q id.QueueUID, _ quorumq.Time) {
					fired <- fmt.Sprintf("%d after %v", q, time.Since(start))
				}, func() { ts.SetBack() })
				stop := make(chan struct{})
				var running sync.WaitGroup
				running.Go(func() { ts.Run(stop) })
				ts.Set(1, 0, now()+10_000)
				ts.Set(2, 7, now()+3*time.Hour.Milliseconds()) // its leader sets this one again
				time.Sleep(2 * time.Second)
				off.Store(int64(x.set))
				ts.TimeSet()
				if got := <-fired; got != x.want {
					t.Errorf("%q, want %q", got, x.want)
				}
				close(stop)
				running.Wait()
				if e := ts.where[2]; e == nil || e.due != start.Add(3*time.Hour).UnixMilli() {
					t.Errorf("the timer of a queue with a leader is %+v", e)
				}
			})
		})
	}
}
