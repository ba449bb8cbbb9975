package raftfsm

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"
)

// Under load and changes of the leader every command is answered once, what was
// acknowledged is in the log once, and what was refused for certain is not in it.
func TestAnswersHoldOverTransfers(t *testing.T) {
	t.Parallel()
	for _, driven := range []bool{false, true} {
		t.Run(fmt.Sprintf("driven=%v", driven), func(t *testing.T) {
			t.Parallel()
			answersHoldOverTransfers(t, driven)
		})
	}
}

func answersHoldOverTransfers(t *testing.T, driven bool) {
	t.Helper()
	var c *testCluster
	if driven {
		c = newDriven(t, nil)
		go c.drive(t.Context())
	} else {
		c = newCluster(t, 3, nil)
	}
	const n = 3000
	window := make(chan struct{}, 64)
	var mu sync.Mutex
	answers := map[string]error{}
	var wg sync.WaitGroup
	for i := range n {
		if i%500 == 250 {
			l := c.leader()
			wg.Go(func() { _ = l.group.TransferLeadership(t.Context(), "") }) // a failed one is as good
		}
		header := fmt.Sprintf("c%d", i)
		wg.Add(1)
		send(t, "an answer to one of those under way", window, struct{}{})
		c.leader().group.Submit(command(header, "body"), func(r reply, err error) {
			defer wg.Done()
			<-window
			mu.Lock()
			defer mu.Unlock()
			if _, twice := answers[header]; twice {
				t.Errorf("%s was answered twice", header)
			}
			if err == nil && r.Header != header {
				t.Errorf("%s got the reply to %s", header, r.Header)
			}
			answers[header] = err
		})
	}
	answered := make(chan struct{})
	go func() {
		wg.Wait()
		close(answered)
	}()
	receive(t, "the answers to all", answered)
	c.propose("last")
	c.equal()
	count := map[string]int{}
	for _, h := range c.leader().headers() {
		count[h]++
	}
	var applied, refused, unknown int
	for h, err := range answers {
		var not *NotLeaderError
		switch {
		case err == nil:
			applied++
			if count[h] != 1 {
				t.Errorf("%s was acknowledged and is there %d times", h, count[h])
			}
		case errors.As(err, &not), errors.Is(err, ErrBusy):
			refused++
			if count[h] != 0 {
				t.Errorf("%s was refused and is there %d times", h, count[h])
			}
		case errors.Is(err, ErrUnknownOutcome):
			unknown++
		default:
			t.Errorf("%s: %v", h, err)
		}
	}
	t.Logf("%d applied, %d refused, %d unknown", applied, refused, unknown)
	if applied == 0 {
		t.Error("nothing was applied")
	}
}

// deaf is a transport whose requests arrive, but whose answers are lost.
type deaf struct {
	*heartbeats
	lost atomic.Bool
}

var errLost = errors.New("answer lost")

func (d *deaf) AppendEntries(id raft.ServerID, to raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	err := d.heartbeats.AppendEntries(id, to, req, resp)
	if d.lost.Load() {
		*resp = raft.AppendEntriesResponse{}
		return errLost
	}
	return err
}

func (d *deaf) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// A command whose leader hears no answers has an unknown outcome; here it is applied
// later, on that member too, and is not answered a second time.
func TestUnknownCommandThatIsAppliedLater(t *testing.T) {
	t.Parallel()
	transports := map[*member]*deaf{}
	c := newCluster(t, 3, func(m *member, config *Config[reply, string]) {
		transports[m] = &deaf{heartbeats: m.transport}
		config.Transport = transports[m]
	})
	c.propose("before")
	old := c.leader()
	transports[old].lost.Store(true)
	var answers atomic.Int32
	result := make(chan error, 2)
	old.group.Submit(command("unknown", "body"), func(_ reply, err error) {
		answers.Add(1)
		result <- err
	})
	if err := receive(t, "an answer", result); !errors.Is(err, ErrUnknownOutcome) {
		t.Fatalf("answer %v", err)
	}
	transports[old].lost.Store(false)
	c.propose("after")
	c.equal()
	if got := old.headers(); !slices.Equal(got, []string{"before", "unknown", "after"}) {
		t.Errorf("commands %q", got)
	}
	if n := answers.Load(); n != 1 {
		t.Errorf("%d answers", n)
	}
	if p := old.group.Stats().PendingBytes; p != 0 {
		t.Errorf("%d bytes are still pending", p)
	}
}
