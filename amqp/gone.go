package amqp

import (
	"time"

	"github.com/quorate/quorate/broker"
)

// goneEvery is the least time between two looks whether what connections stand for is there,
// so that many changes of the catalog cost one look.
const goneEvery = 250 * time.Millisecond

// endGone closes connections whose vhost or user is deleted, until the server stops (VH-2).
func (s *Server) endGone() {
	pause := time.NewTimer(goneEvery)
	defer pause.Stop()
	for {
		changed := s.b.CatalogChanged()
		s.each((*conn).endIfGone)
		wait := pause.C
		if changed != nil {
			wait = nil
		}
		select {
		case <-changed:
			pause.Reset(goneEvery)
			select {
			case <-pause.C:
			case <-s.stopping:
				return
			}
		case <-wait: // the node starts
		case <-s.stopping:
			return
		}
		pause.Reset(goneEvery)
	}
}

// endIfGone closes an open connection whose vhost or user is deleted.
func (c *conn) endIfGone() {
	x := c.show()
	if x.Name == "" || x.State == broker.ConnectionClosing {
		return
	}
	if why := c.s.b.Gone(x.User, x.VHost); why != "" {
		c.log.Info("a connection is closed", "reason", why)
		c.force(why)
	}
}
