package cluster

import (
	"log/slog"
	"testing"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal"
)

// The log may find a group damaged as soon as it is open, before there is a host of members: that is only
// logged, for the group's member is kept closed when it is to be opened.
func TestGroupLostBeforeTheHost(t *testing.T) {
	c := &Cluster{log: slog.New(slog.DiscardHandler)}
	c.groupLost(id.FirstQueueUID.Group(), wal.ErrLost)
}
