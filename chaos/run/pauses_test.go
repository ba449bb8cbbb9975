package run

import (
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos/history"
)

// A pause counts from a publisher's first confirm on, whether it has ended or not; a look forgets those before it.
func TestPauses(t *testing.T) {
	p := newPauses()
	confirmed := func(publisher int, class string, seconds float64) {
		at := time.Duration(seconds * float64(time.Second))
		p.confirmed(&history.Event{Kind: history.Confirmed, Publisher: publisher, Client: class, At: at})
	}
	looks := func(seconds int, want ...Pause) {
		t.Helper()
		if got := p.look(time.Duration(seconds) * time.Second); !slices.Equal(got, want) {
			t.Errorf("after %d s: %v, want %v", seconds, got, want)
		}
	}
	looks(1) // nobody was confirmed anything yet
	confirmed(1, "grpc/all", 2)
	confirmed(2, "grpc/one", 2.5)
	confirmed(1, "grpc/all", 3)
	looks(3, Pause{AllTogether, 500 * time.Millisecond}, Pause{"grpc/all", time.Second}, Pause{"grpc/one", 500 * time.Millisecond})
	looks(7, Pause{AllTogether, 4 * time.Second}, Pause{"grpc/all", 4 * time.Second}, Pause{"grpc/one", 4500 * time.Millisecond})
	confirmed(2, "grpc/one", 8)
	looks(9, Pause{AllTogether, 5 * time.Second}, Pause{"grpc/all", 6 * time.Second}, Pause{"grpc/one", 5500 * time.Millisecond})
}
