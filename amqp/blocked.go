package amqp

import (
	"slices"
	"time"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker/limits"
	"github.com/quorate/quorate/internal/wait"
)

const (
	// blockedEvery is the time between two checks whether queues have room again.
	blockedEvery = 250 * time.Millisecond
	// maxFullQueues bounds the full queues that a connection waits for; it may meet others once it
	// continues.
	maxFullQueues = 16
)

// blocking is why publishes of a connection wait (PUB-10): an alarm of the node, or queues that had
// no room for an earlier message. The connection's mu guards it.
type blocking struct {
	on     bool
	full   []string    // queues without room
	stored limits.Hold // a vhost, or a user's queues, hold too much (VH-16, VH-17); zero: neither
}

// block holds the connection's publishes back from now on, and notifies the client. queue is the queue
// without room; "": the node has an alarm.
func (c *conn) block(reason, queue string) {
	c.mu.Lock()
	b := &c.blocking
	if queue != "" && len(b.full) < maxFullQueues && !slices.Contains(b.full, queue) {
		b.full = append(b.full, queue)
	}
	first := !b.on
	if b.on = true; first {
		c.held.Store(true)
		if c.client.blocked && !c.closing {
			c.out = wire.AppendMethod(c.out, 0, &wire.ConnectionBlocked{Reason: reason})
		}
	}
	c.mu.Unlock()
	if first {
		wait.Wake(c.news)
		c.s.counters.blocked.Add(1)
		c.log.Info("a connection's publishes are held back", "reason", reason)
		c.s.watchBlocked(c)
	}
}

// unblock lets publishes continue if nothing holds them back any longer, and reports whether they do.
func (c *conn) unblock() bool {
	if c.s.b.Alarms.Now() != nil {
		return false
	}
	c.mu.Lock()
	b := &c.blocking
	full, stored := slices.Clone(b.full), b.stored
	c.mu.Unlock()
	if stored.Full() {
		return false
	}
	full = slices.DeleteFunc(full, func(q string) bool { return c.s.room(c.vhost, q) == nil })
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.full = full; len(full) > 0 {
		return false
	}
	b.on, b.stored = false, limits.Hold{}
	c.held.Store(false)
	if c.client.blocked && !c.closing {
		c.out = wire.AppendMethod(c.out, 0, &wire.ConnectionUnblocked{})
	}
	wait.Wake(c.news)
	c.changed.Broadcast()
	return true
}

// awaitUnblocked makes a publish wait while the connection is blocked. It returns at once if the
// connection is ending.
func (c *conn) awaitUnblocked(by *hand) error {
	if a := c.s.b.Alarms.Now(); a != nil {
		c.block(a.Reason, "")
	}
	if c.held.Load() {
		return c.awaitNotHeld(by)
	}
	return nil
}

// awaitNotHeld waits until publishes may continue, or the connection is ending. It returns
// errPaused if they are dropped.
func (c *conn) awaitNotHeld(by *hand) error {
	dropped := false
	err := c.holdBack(by, func() bool {
		dropped = c.held.Load() && c.beside.dropping
		return dropped || !c.held.Load() || c.endingLocked()
	})
	if err == nil && dropped {
		return errPaused
	}
	return err
}

// watchBlocked makes unblockAll check a connection until it may continue.
func (s *Server) watchBlocked(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, watched := s.blocked[c]; watched {
		return
	}
	if s.blocked == nil {
		s.blocked = make(map[*conn]struct{})
	}
	s.blocked[c] = struct{}{}
	if len(s.blocked) == 1 {
		s.running.Go(s.unblockAll)
	}
}

// unblockAll checks blocked connections again and again. It runs while there are any.
func (s *Server) unblockAll() {
	tick := time.NewTicker(blockedEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.stopping:
			return
		}
		s.mu.Lock()
		all := make([]*conn, 0, len(s.blocked))
		for c := range s.blocked {
			all = append(all, c)
		}
		s.mu.Unlock()
		var free []*conn
		for _, c := range all {
			if c.life.Err() != nil || c.unblock() {
				free = append(free, c)
			}
		}
		if s.forgetBlocked(free) {
			return
		}
	}
}

// forgetBlocked removes connections that are no longer blocked, and reports whether none is left.
func (s *Server) forgetBlocked(free []*conn) (none bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range free {
		if !c.held.Load() || c.life.Err() != nil { // it may be blocked again by now
			delete(s.blocked, c)
		}
	}
	return len(s.blocked) == 0
}
