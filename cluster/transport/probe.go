package transport

import "sync"

// The system at the other end may have given a connection up, by its own bound or with a reset that was lost. It
// reports that only to a sender. But a node that has sent all that it may waits for answers, and the next regular
// ping may be far. So a connection that has become quiet is probed once, until an answer comes.

// probing decides when, by the frames that have come and gone. mu guards all fields below it.
type probing struct {
	mu      sync.Mutex
	in, out uint64 // frames at the last look
	waits   bool   // for the answer to a probe, which was sent at the last look
	unsure  bool   // something has come or gone since the last probe that was answered
}

// due takes the frames that have come and gone so far, and reports whether to send a probe now. It is called each time
// that a heartbeat shows that packets pass. Probes and their answers are among the frames.
func (s *probing) due(in, out uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	came, went := in-s.in, out-s.out
	s.in, s.out = in, out
	if s.waits && went > 0 {
		went-- // the probe
	}
	if s.waits && came > 0 {
		came-- // its answer, or something that shows as much
		s.waits = false
	}
	switch {
	case came > 0:
		s.unsure = true
		return false
	case went > 0:
		s.unsure = true
	case !s.waits && !s.unsure:
		return false
	default:
		s.unsure = false
	}
	s.waits = true
	return true
}
