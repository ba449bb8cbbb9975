package stats

import (
	"context"
	"time"

	"github.com/quorate/quorate/broker/connections"
)

// Connections are what the connections to all nodes have carried, at one time. They are read only, since all that ask share
// them.
type Connections struct {
	At time.Time
	Of map[string]*Connection // by id
}

// Connection is what one connection has carried.
type Connection struct {
	Received, Sent        uint64  // bytes
	ReceiveRate, SendRate float64 // bytes per second
}

// RatesOf returns how fast a connection carries bytes; zeros if it is not known, also if c is nil.
func (c *Connections) RatesOf(id string) (receive, send float64) {
	if c == nil || c.Of[id] == nil {
		return 0, 0
	}
	return c.Of[id].ReceiveRate, c.Of[id].SendRate
}

// newConnections compares connections with those before; nil: there are none.
func newConnections(before *Connections, all []connections.ConnectionInfo, at time.Time) *Connections {
	out := &Connections{At: at, Of: make(map[string]*Connection, len(all))}
	values := make([]Connection, len(all))
	for i := range all {
		x, v := &all[i], &values[i]
		*v = Connection{Received: x.Received, Sent: x.Sent}
		if before != nil && before.Of[x.ID] != nil {
			was, elapsed := before.Of[x.ID], at.Sub(before.At)
			v.ReceiveRate, v.SendRate = perSecond(was.Received, v.Received, elapsed), perSecond(was.Sent, v.Sent, elapsed)
		}
		out.Of[x.ID] = v
	}
	return out
}

// Connections returns what all connections have carried, at most FreshFor old. However many ask, each node is asked once.
func (c *Collector) Connections(ctx context.Context) (*Connections, error) {
	i, err := c.objects.get(ctx)
	if err != nil {
		return nil, err
	}
	return i.carried, nil
}
