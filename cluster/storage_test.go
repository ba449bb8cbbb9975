package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/quorumq"
)

// Queues stay in the log that they began with when the setting changes, both ways.
func TestQueueLogs(t *testing.T) {
	t.Parallel()
	kind := QueueLogBolt
	n := newTestNodes(t, func(c *Config) { c.QueueLog = kind })
	n.start("a", "b", "c")
	first := n.nodes["a"].declare(t, "first", 3)
	n.nodes["b"].publish(t, first, "one", quorumq.Unlimited)
	n.stop("a", "b", "c")

	kind = QueueLogShared
	n.start("a", "b", "c")
	second := n.nodes["a"].declare(t, "second", 3)
	n.nodes["c"].publish(t, first, "two", quorumq.Unlimited)
	n.nodes["c"].publish(t, second, "three", quorumq.Unlimited)
	for queue, isBolt := range map[string]bool{first.String(): true, second.String(): false} {
		_, err := os.Stat(filepath.Join(n.dir, "a", datadir.QueuesDir, queue, "log.db"))
		if got := err == nil; got != isBolt || err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("queue %s has a file of its own: %v, %v", queue, got, err)
		}
	}
	n.stop("a", "b", "c")

	kind = QueueLogBolt
	n.start("a", "b", "c")
	_, in := n.nodes["b"].consume(t, first)
	in.await(t, "one", "two")
	_, in = n.nodes["b"].consume(t, second)
	in.await(t, "three")
}
