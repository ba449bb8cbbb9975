package testcluster

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/cluster/datadir"
)

// Settings are settings of all nodes that few tests need. Zero values are the defaults.
type Settings struct {
	Broker         broker.Config
	ManualFinalise bool  // an operator finalises newer versions
	DiskLow        int64 // bytes below which the free space of a node's disk counts as low
	NoRepair       bool  // members that have lost what they had stored are not rebuilt
	// MemoryHigh returns the bytes above which a node says that its memory is short; nil: none does.
	MemoryHigh func(node int) int64
}

// StartAs is Start with settings.
func StartAs(t testing.TB, n int, s Settings) *Cluster {
	t.Helper()
	return (&Cluster{t: t, dir: t.TempDir(), settings: s}).start(n)
}

// Spoil changes a bit of the first place in a killed node's log that has the text, as a bad disk does: the member of that
// message's queue has then lost what it had stored. The log must have something behind it, or else it counts as not written.
func (c *Cluster) Spoil(i int, text string) {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(c.dir, string(c.nodes[i].name), datadir.LogDir, "*.wal"))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			c.t.Fatal(err)
		}
		at := bytes.Index(b, []byte(text))
		if at < 0 {
			continue
		}
		b[at] ^= 1
		if err := os.WriteFile(f, b, 0o600); err != nil {
			c.t.Fatal(err)
		}
		return
	}
	c.t.Fatalf("the log of node %s does not have %q: %q", c.nodes[i].name, text, files)
}
