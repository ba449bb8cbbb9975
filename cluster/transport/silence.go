package transport

import (
	"time"

	"github.com/quorate/quorate/cluster/pulse"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
)

// Silent returns for how long a heartbeat between this node and the peer, or an answer on this
// node's own connection, has been missing, and whether there is a connection. Heartbeats report
// which heartbeats arrived, so a peer that can only send, or only receive, also becomes silent. A
// node that was too busy to send does not count that time, and while it or the peer lacks
// processors, silence counts from later on.
func (m *Mux) Silent(n id.NodeID) (d time.Duration, up bool) {
	pc, err := m.connection(n)
	if err != nil {
		return 0, false
	}
	p := m.pulses.Of(n)
	return max(0, max(pc.unanswered(), p.Unanswered(time.Now(), pc.began))-p.Leniency()), true
}

// Overdue returns for how long the next heartbeat of a peer that is connected has been due, less what Silent leaves out
// too. Unlike silence it does not depend on how long packets take.
func (m *Mux) Overdue(n id.NodeID) time.Duration {
	if _, err := m.connection(n); err != nil {
		return 0
	}
	p := m.pulses.Of(n)
	return max(0, p.OverdueFor(time.Now())-p.Leniency())
}

// overdue is called when no heartbeat came in time: it reports that, and ends the connection if that lasts,
// for a process that is stopped keeps its sockets.
func (m *Mux) overdue(p *pulse.Pulse) {
	p.Late()
	pc, err := m.connection(p.Node)
	if err != nil {
		return
	}
	if !p.Judges(pc.began, pc.remote.Epoch) {
		return
	}
	silent := p.Unanswered(time.Now(), pc.began)
	if silent >= p.Patience() {
		p.GiveUp()
		pc.abandon(pc.silent())
		m.accepted.drop(pc.remote, pc.silent())
		return
	}
	if pc.lostWay() {
		wait.Wake(pc.astray)
	}
	p.Again()
}
