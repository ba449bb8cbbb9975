package gateway

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/quorate/quorate/quorumq"
)

// gets are the sessions with which this node's clients Get from a queue. They belong to the queue's
// mutex.
//
// Usually there is one. When the answer to a Get is lost, its session may hold a message that nobody knows about.
// Then the session is doubtful: later Gets use another one. Once all its Gets are answered, every message that no
// client holds returns to the queue, and when clients hold nothing more, the session is closed.
type gets struct{ sessions []*getSession }

// getSession is one of them.
type getSession struct {
	key      quorumq.SessionKey
	asked    int  // Gets without an answer
	doubtful bool // the answer to a Get was lost
	swept    bool // what no client holds was returned
	held     map[quorumq.MsgID]struct{}
	// deadlines are in the order of their ends; those of messages that are not held count for nothing.
	deadlines []ackDeadline
}

// ackDeadline says when a message from Get returns to the queue, unless it is settled before.
type ackDeadline struct {
	msg quorumq.MsgID
	end time.Time
}

// open returns the session for a new Get.
func (g *gets) open(newKey func() quorumq.SessionKey) *getSession {
	if n := len(g.sessions); n > 0 && !g.sessions[n-1].doubtful {
		return g.sessions[n-1]
	}
	s := &getSession{key: newKey()}
	g.sessions = append(g.sessions, s)
	return s
}

// of returns the session of a token's consumer, nil if it is not of this node or was closed.
func (g *gets) of(k quorumq.ConsumerKey) *getSession {
	for _, s := range g.sessions {
		if s.consumer() == k {
			return s
		}
	}
	return nil
}

// next returns the time until the first ack deadline, or 0.
func (g *gets) next(now time.Time) (in time.Duration) {
	for _, s := range g.sessions {
		if end := s.next(); !end.IsZero() && (in == 0 || end.Sub(now) < in) {
			in = max(end.Sub(now), time.Millisecond)
		}
	}
	return in
}

// expire returns the commands that requeue messages whose ack deadline has passed.
func (g *gets) expire(now time.Time) (back []quorumq.Command) {
	for _, s := range g.sessions {
		if late := s.expire(now); len(late) > 0 {
			back = append(back, &quorumq.Requeue{Consumer: s.consumer(), Ranges: rangesOf(late)})
		}
	}
	return append(back, g.sweep()...)
}

// sweep returns the commands that clear doubtful sessions of what no client holds, or close them.
func (g *gets) sweep() (cmds []quorumq.Command) {
	g.sessions = slices.DeleteFunc(g.sessions, func(s *getSession) bool {
		switch {
		case !s.doubtful || s.asked > 0:
		case len(s.held) == 0:
			cmds = append(cmds, &quorumq.Cancel{Consumer: s.consumer(), Requeue: true}, &quorumq.SessionClosed{Session: s.key})
			return true
		case !s.swept:
			s.swept = true
			cmds = append(cmds, &quorumq.Requeue{Consumer: s.consumer(), Ranges: s.others()})
		}
		return false
	})
	return cmds
}

// consumer is the one that takes the session's messages.
func (s *getSession) consumer() quorumq.ConsumerKey { return quorumq.ConsumerKey{SessionKey: s.key} }

// hold records a message that a client may settle until end, which is no earlier than that of others.
func (s *getSession) hold(m quorumq.MsgID, end time.Time) {
	if s.held == nil {
		s.held = map[quorumq.MsgID]struct{}{}
	}
	s.held[m] = struct{}{}
	s.deadlines = append(s.deadlines, ackDeadline{msg: m, end: end})
}

// drop forgets a message that no client holds any longer; false: no client held it.
func (s *getSession) drop(m quorumq.MsgID) bool {
	if _, is := s.held[m]; !is {
		return false
	}
	delete(s.held, m)
	switch {
	case len(s.held) == 0:
		s.held, s.deadlines = nil, nil
	case len(s.deadlines) > 2*len(s.held):
		s.deadlines = slices.DeleteFunc(s.deadlines, func(d ackDeadline) bool {
			_, is := s.held[d.msg]
			return !is
		})
	}
	return true
}

// next returns the first ack deadline, or zero.
func (s *getSession) next() time.Time {
	for len(s.deadlines) > 0 {
		if _, is := s.held[s.deadlines[0].msg]; is {
			return s.deadlines[0].end
		}
		s.deadlines = s.deadlines[1:]
	}
	return time.Time{}
}

// expire drops the messages whose ack deadline has passed, and returns them.
func (s *getSession) expire(now time.Time) (late []quorumq.MsgID) {
	for end := s.next(); !end.IsZero() && !now.Before(end); end = s.next() {
		late = append(late, s.deadlines[0].msg)
		s.drop(s.deadlines[0].msg)
	}
	return late
}

// others returns all ids of messages that no client holds.
func (s *getSession) others() (rs []quorumq.MsgIDRange) {
	first := quorumq.MsgID(1)
	for _, m := range slices.Sorted(maps.Keys(s.held)) {
		if first < m {
			rs = append(rs, quorumq.MsgIDRange{First: first, Last: m - 1})
		}
		first = m + 1
	}
	return append(rs, quorumq.MsgIDRange{First: first, Last: math.MaxUint64})
}

// rangesOf returns ids as ascending ranges. It sorts them in place.
func rangesOf(ids []quorumq.MsgID) (rs []quorumq.MsgIDRange) {
	slices.Sort(ids)
	for _, m := range ids {
		if n := len(rs) - 1; n >= 0 && rs[n].Last+1 == m {
			rs[n].Last = m
			continue
		}
		rs = append(rs, quorumq.MsgIDRange{First: m, Last: m})
	}
	return rs
}
