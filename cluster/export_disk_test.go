package cluster

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/backup"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/wal"
)

// A member on a disk that runs low is not exported, because its log could not be compacted: another one is, the leader
// too. An export in progress ends when the disk runs low.
func TestExportWhileDiskIsLow(t *testing.T) {
	n, d := newDiskNodes(t, steady)
	n.start("a", "b", "c")
	a := n.nodes["a"]
	q := a.declare(t, "q", 3)
	const messages = 70 // in two blocks
	for range messages {
		a.publish(t, q, strings.Repeat("x", backup.BlockBytes/(messages-20)), quorumq.Unlimited)
	}
	export := func(each func(*backup.Block)) error {
		return a.Leaders().Export(testContext(t), q, false, func(b []byte) ([]byte, error) {
			x, err := backup.Decode(b)
			each(&x)
			return nil, err
		})
	}
	leader := n.leader(q).cfg.Node
	for _, low := range []id.NodeID{"a", "b", "c"} {
		if low == leader {
			continue
		}
		d.leave(n, low, testDiskLow-1000, wal.PressureLow)
		got := 0
		if err := export(func(x *backup.Block) { got += len(x.Messages) }); err != nil || got != messages {
			t.Errorf("with a disk that is low on %s: %d messages, %v", low, got, err)
		}
	}
	for _, node := range []id.NodeID{"a", "b", "c"} {
		d.leave(n, node, 100*testDiskLow, wal.PressureNone)
	}
	got, blocks := 0, 0
	err := a.host.Member(q).Export(testContext(t), 0, "/", "q", false, func(b []byte) ([]byte, error) {
		x, err := backup.Decode(b)
		got += len(x.Messages)
		if blocks++; blocks == 2 {
			d.leave(n, "a", testDiskLow-1000, wal.PressureLow)
		}
		return nil, err
	})
	if err == nil || !strings.Contains(err.Error(), "disk is nearly full") || got == 0 || got == messages {
		t.Errorf("the disk ran low: %d messages, %v", got, err)
	}
}
