package run

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/chaos/history"
)

// Publishing ends when a guarantee is seen broken twice in a row, and when there is nothing to see it continues.
func TestUntilEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			seen  []bool
			looks int
		}{
			"never":             {nil, 20},
			"explained by then": {[]bool{true, false, true, false}, 20},
			"twice":             {[]bool{false, true, false, true, true}, 5},
		} {
			looks := 0
			cfg := Config{History: history.New(), Log: t.Logf, Enough: func([]history.Event) bool {
				looks++
				return looks <= len(c.seen) && c.seen[looks-1]
			}}
			ctx, cancel := context.WithTimeout(t.Context(), 20*enoughEvery+time.Second/2)
			untilEnough(ctx, cfg)
			cancel()
			if looks != c.looks {
				t.Errorf("%s: it ended after %d looks, want %d", name, looks, c.looks)
			}
		}
	})
}
