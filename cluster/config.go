package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/clock"
	"github.com/quorate/quorate/cluster/nodeclock"
	"github.com/quorate/quorate/wal"
	"github.com/quorate/quorate/wal/vfs"
)

// Defaults of Config.
const (
	defaultExpect         = 3
	defaultConfirmTimeout = 60 * time.Second
	defaultCommandTimeout = 5 * time.Second
	defaultBodyCacheBytes = 256 << 20
	defaultPublishWindow  = 16384
	defaultDiskHang       = 10 * time.Second
	// defaultStaleness leaves time for an election of the catalog, 1 to 2 s, after the last proof.
	defaultStaleness = 5 * time.Second
)

// Validate returns all faults of the Config at once.
func (c Config) Validate() error {
	var faults []error
	need := func(missing bool, field, remedy string) {
		if missing {
			faults = append(faults, fmt.Errorf("cluster: %s is not set: %s", field, remedy))
		}
	}
	need(c.Name == "", "Name", "name the cluster, alike on all nodes")
	need(c.Node == "", "Node", "give the node an id that it keeps, and no other node has")
	need(c.DataDir == "", "DataDir", "name a directory for this node alone")
	need(c.Peers == nil, "Peers", "open a listener for other nodes")
	need(c.PeerAddr == "", "PeerAddr", "say at which host:port other nodes reach Peers")
	need(c.GossipAddr == "", "GossipAddr", "say at which host:port to gossip")
	if len(c.Node) > catalog.MaxNodeIDBytes {
		faults = append(faults, fmt.Errorf("cluster: Node is %d bytes long, the limit is %d", len(c.Node), catalog.MaxNodeIDBytes))
	}
	for _, t := range []struct{ field, text string }{{"Name", c.Name}, {"Node", string(c.Node)}} {
		if hasBreak(t.text) {
			faults = append(faults, fmt.Errorf("cluster: %s %q has a control character", t.field, t.text))
		}
	}
	if n := len(c.Key); n != 0 && n != 16 && n != 24 && n != 32 {
		faults = append(faults, fmt.Errorf("cluster: Key is %d bytes long: use 16, 24 or 32", n))
	}
	for _, n := range []struct {
		field string
		value int64
	}{
		{"Expect", int64(c.Expect)},
		{"SuspectAfter", int64(c.SuspectAfter)},
		{"CatalogStaleness", int64(c.CatalogStaleness)},
		{"HibernateAfter", int64(c.HibernateAfter)},
		{"BodyCacheBytes", c.BodyCacheBytes},
		{"TailBytes", c.TailBytes},
		{"PublishWindow", int64(c.PublishWindow)},
		{"Reconcile.Interval", int64(c.Reconcile.Interval)},
		{"Reconcile.Delay", int64(c.Reconcile.Delay)},
		{"Reconcile.AutoRemove", int64(c.Reconcile.AutoRemove)},
		{"Reconcile.ReplaceAfter", int64(c.Reconcile.ReplaceAfter)},
		{"Reconcile.LeadersDelay", int64(c.Reconcile.LeadersDelay)},
		{"DiskLow", c.DiskLow},
		{"DiskFloor", c.DiskFloor},
		{"DiskHang", int64(c.DiskHang)},
	} {
		if n.value < 0 {
			faults = append(faults, fmt.Errorf("cluster: %s is %d: set a positive value, or 0 for the default", n.field, n.value))
		}
	}
	if s := c.ClockSkew; s != 0 && (s < clock.MinLimit || s > clock.MaxLimit) {
		faults = append(faults, fmt.Errorf("cluster: ClockSkew is %v: set %v to %v, or 0 for the default", s, clock.MinLimit, clock.MaxLimit))
	}
	if c.DiskLow > 0 && c.DiskFloor > c.DiskLow {
		faults = append(faults, fmt.Errorf("cluster: DiskFloor is %d bytes: set at most DiskLow, %d", c.DiskFloor, c.DiskLow))
	}
	return errors.Join(faults...)
}

// hasBreak finds what would break a line of a log or a file.
func hasBreak(s string) bool {
	for _, r := range s {
		if r < ' ' || r == 0x7f {
			return true
		}
	}
	return false
}

// withDefaults is called after Validate.
func (c Config) withDefaults() Config {
	if c.Expect == 0 {
		c.Expect = defaultExpect
	}
	if c.ConfirmTimeout == 0 {
		c.ConfirmTimeout = defaultConfirmTimeout
	}
	if c.CommandTimeout == 0 {
		c.CommandTimeout = defaultCommandTimeout
	}
	if c.CatalogStaleness == 0 {
		c.CatalogStaleness = defaultStaleness
	}
	if c.BodyCacheBytes == 0 {
		c.BodyCacheBytes = defaultBodyCacheBytes
	}
	if c.TailBytes == 0 {
		c.TailBytes = wal.DefaultTailBytes
	}
	if c.PublishWindow == 0 {
		c.PublishWindow = defaultPublishWindow
	}
	c.Reconcile = c.Reconcile.WithDefaults()
	if c.DiskHang == 0 {
		c.DiskHang = defaultDiskHang
	}
	if c.LogDir == nil {
		c.LogDir = vfs.OS
	}
	if c.ClockSkew == 0 {
		c.ClockSkew = clock.DefaultLimit
	}
	if c.Clock == nil {
		c.Clock = nodeclock.Machine()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
