package metadata

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// RE-6: every loop that waits looks at once when who is to be a member may have changed, also if
// that was during its last look.
func TestLeaderLoopsAllLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Group{cfg: Config{Life: t.Context()}, news: newMemberNews()}
		loops := []*LeaderLoop{g.LeaderLoop(), g.LeaderLoop()}
		look := func(want time.Duration) {
			t.Helper()
			began := time.Now()
			var wait sync.WaitGroup
			for i, loop := range loops {
				wait.Go(func() {
					if err := loop.await(time.Hour, nil); err != nil || time.Since(began) != want {
						t.Errorf("loop %d: looked after %v, %v; want %v", i, time.Since(began), err, want)
					}
				})
			}
			if want > 0 && want < time.Hour {
				time.Sleep(want)
				g.membersChange()
			}
			wait.Wait()
		}
		look(time.Second)
		g.membersChange() // nobody waits now
		look(0)
		look(time.Hour)
	})
}
