package amqp

import (
	"time"

	"github.com/quorate/quorate/broker/connections"
)

// goneEvery is the minimum time between two checks whether the vhosts and users of connections
// still exist, so that many changes of the catalog cost one check.
const goneEvery = 250 * time.Millisecond

// endGone closes connections whose vhost or user is deleted (VH-2), and all connections while the
// node is cut off. It runs until the server stops.
func (s *Server) endGone() {
	pause := time.NewTimer(goneEvery)
	defer pause.Stop()
	for {
		changed, cut := s.b.Connections.CatalogChanged(), s.b.Serving.CutOff()
		s.each((*conn).endIfGone)
		wait := pause.C
		if changed != nil {
			wait = nil
		}
		select {
		case <-changed:
			if !s.wait(pause) {
				return
			}
		case <-cut:
			if !s.wait(pause) {
				return
			}
		case <-wait: // the node is starting
		case <-s.stopping:
			return
		}
		pause.Reset(goneEvery)
	}
}

// wait lets goneEvery pass; false: the server is stopping.
func (s *Server) wait(pause *time.Timer) bool {
	pause.Reset(goneEvery)
	select {
	case <-pause.C:
		return true
	case <-s.stopping:
		return false
	}
}

// endIfGone closes an open connection whose vhost or user is deleted, or whose node is cut off.
func (c *conn) endIfGone() {
	x := c.show()
	if x.Name == "" || x.State == connections.ConnectionClosing {
		return
	}
	if err := c.s.b.Serving.Serves(); err != nil { // they may have gone during the handshake
		c.force(forced(err).text)
		return
	}
	if why := c.s.b.Connections.Gone(c.ctx, x.VHost); why != "" {
		c.log.Info("a connection is closed", "reason", why)
		c.force(why)
	}
}
