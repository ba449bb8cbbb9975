package testcluster

import (
	"testing"

	"github.com/quorate/quorate/broker"
)

// Settings are settings of all nodes that few tests need. Zero values are the defaults.
type Settings struct {
	Broker         broker.Config
	ManualFinalise bool  // an operator finalises newer versions
	DiskLow        int64 // bytes below which the free space of a node's disk counts as low
}

// StartAs is Start with settings.
func StartAs(t testing.TB, n int, s Settings) *Cluster {
	t.Helper()
	return (&Cluster{t: t, dir: t.TempDir(), broker: s.Broker, manual: s.ManualFinalise, diskLow: s.DiskLow}).start(n)
}
