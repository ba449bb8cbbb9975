package each

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, peak atomic.Int64
		began := time.Now()
		err := Of([]int{0, 1, 2, 3, 4, 5, 6}, 3, func(i int) error {
			n := now.Add(1)
			defer now.Add(-1)
			for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
			}
			time.Sleep(time.Second)
			if i%2 == 1 {
				return fmt.Errorf("%d", i)
			}
			return nil
		})
		if err == nil || err.Error() != "1\n3\n5" {
			t.Errorf("%v, want the odd ones in order", err)
		}
		if took := time.Since(began); peak.Load() != 3 || took != 3*time.Second {
			t.Errorf("%d at the same time, all in %v; want 3 in 3 s", peak.Load(), took)
		}
		if err := Of(nil, 1, func(int) error { return fmt.Errorf("asked") }); err != nil {
			t.Error(err)
		}
	})
}
