package pulse

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/id"
)

func TestStarved(t *testing.T) {
	const every = 250 * time.Millisecond
	var s starved
	inTime := func(during time.Duration) {
		for d := time.Duration(0); d < during; d += every {
			s.ran(0, every)
		}
	}
	late := func(during, by time.Duration) {
		for d := time.Duration(0); d < during; d += every + by {
			s.ran(by, every+by)
		}
	}
	for _, c := range []struct {
		name        string
		run         func()
		least, most uint32
	}{
		{"in time", func() { inTime(time.Minute) }, 0, 0},
		{"a little late", func() { late(time.Minute, 5*time.Millisecond) }, 1, mildStarvation / 2},
		{"stopped once", func() { inTime(time.Minute); late(1, time.Hour) }, 0, mildStarvation / 2},
		{"stopped for a second, again and again", func() {
			inTime(time.Minute)
			for range 20 {
				s.ran(time.Second, time.Second+every)
				inTime(3 * time.Second)
			}
			s.ran(time.Second, time.Second+every)
		}, 1, mildStarvation},
		{"late most of the time", func() { late(10*time.Second, 100*time.Millisecond) }, starvation, 1000},
		{"very late all of the time", func() { late(time.Minute, 500*time.Millisecond) }, starvation, 1000},
		{"late long ago", func() { late(time.Minute, 500*time.Millisecond); inTime(3 * starvedOver) }, 0, mildStarvation / 2},
		{"early, by a clock that was set", func() { inTime(time.Minute); s.ran(-time.Hour, every); s.ran(0, 0) }, 0, 0},
	} {
		s = starved{}
		c.run()
		if share := s.share.Load(); share < c.least || share > c.most {
			t.Errorf("%s: %d thousandths, want %d to %d", c.name, share, c.least, c.most)
		}
	}
}

func TestLeniency(t *testing.T) {
	for share, want := range map[uint32]time.Duration{
		0: 0, mildStarvation: 0, (mildStarvation + starvation) / 2: time.Second, starvation: 2 * time.Second, 1 << 31: 2 * time.Second,
	} {
		if d := leniency(share, time.Second); d != want {
			t.Errorf("%d thousandths: %v, want %v", share, d, want)
		}
	}
}

// Both ends of a pair bear with silence if either says that it lacks processors.
func TestStarvationIsReported(t *testing.T) {
	for name, shares := range map[string][2]uint32{"the asker": {starvation, 0}, "the asked": {0, starvation}, "neither": {0, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				sets := make([]*Set, 2)
				for i, n := range []id.NodeID{"n1", "n2"} {
					sets[i] = New(Config{Life: ctx, Node: n, Every: time.Hour, Timeout: time.Second}, func(*Pulse) {}) // nothing is measured
					sets[i].starved.share.Store(shares[i])
				}
				pulses := []*Pulse{sets[0].Of("n2"), sets[1].Of("n1")}
				var running sync.WaitGroup
				one, other := net.Pipe()
				for i, conn := range []net.Conn{one, other} {
					running.Go(func() { _ = pulses[i].Serve(conn, NewReader(conn), 1, func() error { return nil }) })
				}
				synctest.Wait()
				want := time.Second + leniency(max(shares[0], shares[1]), time.Second)
				if d1, d2 := pulses[0].Patience(), pulses[1].Patience(); d1 != want || d2 != want {
					t.Errorf("patience for %v and %v, want %v", d1, d2, want)
				}
				_, _ = one.Close(), other.Close()
				stop()
				running.Wait()
				for i := range sets {
					sets[i].Wait()
					pulses[i].drop()
				}
			})
		})
	}
}
