package policy

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/catalog"
)

// Vhosts that come and go leave nothing behind for long.
func TestBookForgetsVHosts(t *testing.T) {
	v := catalog.New().View()
	var b Book
	for i := range 20 * minForget {
		b.shelf(v, fmt.Sprint("gone-", i))
		if n := len(b.vhosts); n > minForget {
			t.Fatalf("after %d vhosts that are gone %d are kept", i+1, n)
		}
	}
	b.shelf(v, catalog.DefaultVHost)
	for i := range 2 * minForget {
		b.shelf(v, fmt.Sprint("more-", i))
	}
	if _, kept := b.vhosts[catalog.DefaultVHost]; !kept {
		t.Error("one that exists was dropped")
	}
}
