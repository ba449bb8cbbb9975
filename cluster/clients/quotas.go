package clients

import (
	"sync"

	"github.com/quorate/quorate/id"
)

// QuotaSubject is what a quota bounds: a user, a vhost or a queue, the others being empty (VH-14, VH-15).
type QuotaSubject struct {
	User, VHost string
	Queue       id.QueueUID
}

// QuotaFigures are those of a subject at one node.
type QuotaFigures struct {
	// Messages and Bytes are what the node's clients want to publish in a second, infinite if they are
	// held back.
	Messages, Bytes float64
	StoredBytes     uint64 // of the queues, of a vhost or that a user has declared, that the node leads
	// PublishedMessages and PublishedBytes are what they published in the last second.
	PublishedMessages, PublishedBytes float64
}

// QuotaGate is where publishers of a subject wait on this node. Its methods may be called from any
// goroutine and must not block.
type QuotaGate interface {
	// Figures returns what this node's clients want; StoredBytes is 0.
	Figures() QuotaFigures
	// Learn records what another node's senders want.
	Learn(from id.NodeID, f QuotaFigures)
}

// quotaGates are those of this node. mu guards the map.
type quotaGates struct {
	mu sync.Mutex
	of map[QuotaSubject]QuotaGate
}

func newQuotaGates() quotaGates { return quotaGates{of: map[QuotaSubject]QuotaGate{}} }

// OpenGate announces a gate to other nodes, until CloseGate.
func (s *quotaGates) OpenGate(of QuotaSubject, g QuotaGate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[of] = g
}

// CloseGate stops announcing the gate.
func (s *quotaGates) CloseGate(of QuotaSubject) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, of)
}

// Exchange gives a gate what another node wants, and returns what this one does: nothing if no
// publisher of the subject is here.
func (s *quotaGates) Exchange(of QuotaSubject, from id.NodeID, f QuotaFigures) QuotaFigures {
	s.mu.Lock()
	g := s.of[of]
	s.mu.Unlock()
	if g == nil {
		return QuotaFigures{}
	}
	own := g.Figures()
	g.Learn(from, f)
	return own
}
