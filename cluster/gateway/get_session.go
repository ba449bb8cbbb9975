package gateway

import (
	"time"

	"github.com/quorate/quorate/quorumq"
)

// next returns the time until the first ack deadline, 0 if there is none.
func (s *getSession) next(now time.Time) time.Duration {
	if len(s.ackDeadlines) == 0 {
		return 0
	}
	return max(s.ackDeadlines[0].end.Sub(now), time.Millisecond)
}

// expire returns the commands that requeue messages whose ack deadline has
// passed. Some may be settled already; the queue ignores the commands for them.
func (s *getSession) expire(now time.Time) (back []*op) {
	n := 0
	for n < len(s.ackDeadlines) && !now.Before(s.ackDeadlines[n].end) {
		l := s.ackDeadlines[n]
		back = append(back, &op{
			header: quorumq.AppendCommand(nil, &quorumq.Requeue{
				Consumer: l.consumer, Ranges: []quorumq.MsgIDRange{{First: l.msg, Last: l.msg}},
			}),
			done: func(opAnswer) {},
		})
		n++
	}
	s.ackDeadlines = s.ackDeadlines[n:]
	return back
}
