package transport

import (
	"testing"
	"time"

	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// When a connection is tried. Each step is a look: frames that have come since the last one, those that have gone, answers
// to probes among the first and probes among the latter, and whether it is tried then.
func TestProbing(t *testing.T) {
	t.Parallel()
	type step struct {
		in, out uint64
		due     bool
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"idle", []step{{0, 0, false}, {0, 0, false}}},
		{"busy", []step{{10, 10, false}, {1, 0, false}, {5, 20, false}}},
		{"becomes quiet, and is whole", []step{{10, 10, false}, {0, 0, true}, {1, 1, false}, {0, 0, false}, {0, 0, false}}},
		{"becomes quiet, and is gone", []step{{10, 10, false}, {0, 0, true}, {0, 1, true}, {0, 1, true}}},
		{"sends, and is slow to answer", []step{{0, 5, true}, {0, 1, true}, {2, 1, false}, {5, 0, false}, {0, 0, true}, {1, 1, false}, {0, 0, false}}},
		{"sends, and answers later", []step{{0, 1, true}, {1, 1, true}, {1, 1, false}, {1, 0, false}, {0, 0, true}, {1, 1, false}, {0, 0, false}}},
		{"becomes busy after a probe", []step{{1, 1, false}, {0, 0, true}, {8, 9, false}, {7, 7, false}, {0, 0, true}, {1, 1, false}, {0, 0, false}}},
		{"cannot even send the probe", []step{{0, 3, true}, {0, 0, true}, {0, 0, true}}},
	} {
		var s probing
		var in, out uint64
		for i, x := range c.steps {
			in, out = in+x.in, out+x.out
			if got := s.due(in, out); got != x.due {
				t.Errorf("%s: step %d: due is %v, want %v", c.name, i, got, x.due)
			}
		}
	}
}

// After something was sent on a connection, and no answer came, it is tried with the next heartbeats: the regular pings
// are an hour apart.
func TestProbe(t *testing.T) {
	conf := testConfig("n1", 1)
	conf.HeartbeatEvery, conf.PingEvery = 20*time.Millisecond, time.Hour
	a, b := start(t, conf), start(t, testConfig("n2", 1))
	a.SetPeer("n2", b.address)
	connected(t, a, b)
	const frames = 1
	if err := a.Send("n2", &nodev1.Frame{Kind: &nodev1.Frame_QueueCommand{QueueCommand: &nodev1.QueueCommand{Request: 1}}}); err != nil {
		t.Fatal(err)
	}
	until(t, "a probe was sent and answered", func() bool {
		s := a.Stats().Peers[0]
		return s.FramesOut > frames && s.FramesIn > 0
	})
}
