package check

import (
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos/history"
)

// A publisher that got one confirm soon after the fault and then none for long shows in the
// pause, not in the first confirm.
func TestPauses(t *testing.T) {
	const ms = time.Millisecond
	events := []history.Event{
		{At: 10 * ms, Kind: history.Confirmed, Publisher: 1, Sent: 9 * ms},
		{At: 11 * ms, Kind: history.Confirmed, Publisher: 2, Sent: 9 * ms},
		{At: 20 * ms, Kind: history.Fault, Note: "kill"},
		{At: 50 * ms, Kind: history.Confirmed, Publisher: 1, Sent: 30 * ms},
		{At: 60 * ms, Kind: history.Confirmed, Publisher: 2, Sent: 31 * ms},
		{At: 70 * ms, Kind: history.Confirmed, Publisher: 3, Sent: 32 * ms}, // is new
		{At: 100 * ms, Kind: history.Confirmed, Publisher: 2, Sent: 90 * ms},
		{At: 4000 * ms, Kind: history.Confirmed, Publisher: 1, Sent: 51 * ms},
		{At: 9000 * ms, Kind: history.Confirmed, Publisher: 3, Sent: 80 * ms},
	}
	want := Recovery{Fault: events[2], Confirm: 30 * ms, Pause: 3950 * ms}
	if got := Check(events).Recoveries; len(got) != 1 || got[0].Confirm != want.Confirm || got[0].Pause != want.Pause {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// What the next fault stops is not counted for the one before, but what that one has stopped
// until then is.
func TestPausesEndAtTheNextFault(t *testing.T) {
	const ms = time.Millisecond
	events := []history.Event{
		{At: 10 * ms, Kind: history.Confirmed, Publisher: 1, Sent: 9 * ms},
		{At: 11 * ms, Kind: history.Confirmed, Publisher: 2, Sent: 9 * ms},
		{At: 20 * ms, Kind: history.Fault, Note: "kill"},
		{At: 50 * ms, Kind: history.Confirmed, Publisher: 1, Sent: 30 * ms},
		{At: 4000 * ms, Kind: history.Confirmed, Publisher: 1, Sent: 3900 * ms},
		{At: 4040 * ms, Kind: history.Fault, Note: "pause"},
		{At: 6000 * ms, Kind: history.Confirmed, Publisher: 1, Sent: 5900 * ms},
		{At: 6001 * ms, Kind: history.Confirmed, Publisher: 2, Sent: 30 * ms},
	}
	got := Check(events).Recoveries
	if len(got) != 2 || got[0].Pause != 4020*ms || got[1].Pause != 1960*ms {
		t.Errorf("got %+v", got)
	}
}

// What a workload lacked is said of the workload, and proves nothing of a fault without a number.
func TestWorkloadDidNotBite(t *testing.T) {
	r := Check([]history.Event{
		{Kind: history.Fault, Note: "meanwhile"},
		{Kind: history.Bit, Queue: "chaos.resting", Note: "did not bite: no queue hibernated"},
		{Kind: history.Bit, Queue: "chaos.other", Note: "it did", Again: true},
		{Kind: history.Healed},
	})
	if len(r.Unfelt) != 1 || !strings.Contains(r.String(), "\nworkload chaos.resting: did not bite: no queue hibernated\n") {
		t.Errorf("%d were not felt: %s", len(r.Unfelt), r.String())
	}
	if len(r.Recoveries) != 1 || r.Recoveries[0].Bit != "" {
		t.Errorf("the fault has the workload's proof: %+v", r.Recoveries)
	}
}
