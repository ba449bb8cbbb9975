package queues

import (
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/leader"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// ST-1: ages grow while a queue has nothing to do, even if the clock of this node is behind the
// leader's.
func TestAges(t *testing.T) {
	now := time.UnixMilli(10_000)
	for _, c := range []struct {
		newest, since quorumq.Time
		want          uint64
	}{
		{newest: 2000, since: 0, want: 0},
		{newest: 2000, since: 2000, want: 8000},
		{newest: 2000, since: 1500, want: 8500},
		{newest: 12_000, since: 11_000, want: 1000},
		{newest: 12_000, since: 12_000, want: 0},
	} {
		s := statsOf(&quorumq.Overview{Now: c.newest, OldestReady: c.since, OldestBacklog: c.since}, now)
		if s.OldestMessageAgeMs != c.want || s.OldestBacklogAgeMs != c.want {
			t.Errorf("at %d, newest command %d, since %d: %d and %d, want %d", now.UnixMilli(), c.newest, c.since,
				s.OldestMessageAgeMs, s.OldestBacklogAgeMs, c.want)
		}
	}
}

// ST-1: a queue that is sealed, of which its record shows nothing, is being deleted.
func TestStateOfSealedQueue(t *testing.T) {
	t.Parallel()
	for sealed, want := range map[bool]string{true: StateDeleting, false: StateRunning} {
		f := &cluster.QueueFigures{Overview: quorumq.Overview{DrainDeleting: sealed}}
		if got := new(List).state(&catalog.QueueRecord{}, f); got != want {
			t.Errorf("sealed %v: the state is %q, want %q", sealed, got, want)
		}
	}
}

// ST-1: the figures of a queue that hibernates do not hide that most of its members do not run.
func TestStateOfQueueThatHibernates(t *testing.T) {
	t.Parallel()
	three := []id.NodeID{"a", "b", "c"}
	for _, x := range []struct {
		hibernated, sealed bool
		running            int
		want               string
	}{
		{true, false, 3, StateRunning},
		{true, false, 2, StateRunning},
		{true, false, 1, StateMinority},
		{true, true, 1, StateDeleting},
		{false, false, 1, StateRunning}, // its leader has a majority, which this node does not reach
	} {
		s := &leader.Status{Hibernated: x.hibernated, Members: three, Overview: quorumq.Overview{DrainDeleting: x.sealed}}
		if got := stateWith(&catalog.QueueRecord{}, s, x.running); got != x.want {
			t.Errorf("%+v: the state is %q", x, got)
		}
	}
}
