package cluster

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/cluster/leader"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// Bounds of one call of PeekQueue.
const (
	maxPeekLooked = 2000    // messages that are examined
	maxPeekBytes  = 4 << 20 // stored bytes that are read, if more than one message's
)

// PeekQueue reads messages if this node leads their queue.
func (s calls) PeekQueue(ctx context.Context, r *nodev1.PeekQueueRequest) (*nodev1.PeekQueueResponse, error) {
	uid := id.QueueUID(r.GetQueue())
	q := s.c.host.Member(uid)
	if q == nil {
		s.c.host.Wake(uid)
		return nil, status.Error(codes.NotFound, s.c.host.NotHosted(uid).Error())
	}
	p, err := leader.PeekOf(r)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := q.Barrier(ctx); err != nil {
		led, _ := q.Group().Leader()
		return &nodev1.PeekQueueResponse{Leader: string(led)}, nil //nolint:nilerr // it does not lead: the answer says who does
	}
	return peekAt(q, &p), nil
}

// peekAt examines a page's worth of messages and returns those that are chosen.
func peekAt(q *replica.Member, p *leader.Peek) *nodev1.PeekQueueResponse {
	out := &nodev1.PeekQueueResponse{Leads: true, More: true}
	from, read := p.From, 0
	var page []quorumq.Peeked
	full := func() bool {
		return out.Looked >= maxPeekLooked || read >= maxPeekBytes || len(out.Messages) >= p.Limit
	}
	for out.More && !full() {
		limit := min(maxPeekLooked-int(out.Looked), max(p.Limit-len(out.Messages), 16))
		var next quorumq.PeekFrom
		q.Read(func(state *quorumq.Queue) { page, next, out.More = state.Peek(page[:0], from, limit) })
		for i := range page {
			if full() {
				next, out.More = next.After(&page[i-1]), true
				break
			}
			out.Looked++
			m, n := look(q, p, &page[i])
			if read += n; m != nil {
				out.Messages = append(out.Messages, m)
			}
		}
		from = next
	}
	out.Next = leader.ToCursor(from)
	return out
}

// look reads a message if that takes its body, and returns it if it is chosen, and how many
// bytes were read.
func look(q *replica.Member, p *leader.Peek, at *quorumq.Peeked) (*nodev1.PeekedMessage, int) {
	if len(p.Numbers) > 0 && !slices.Contains(p.Numbers, at.Number) {
		return nil, 0
	}
	out := leader.ToPeeked(at)
	if p.Filter.Empty() && p.Detail == leader.PeekPlaces {
		return out, 0
	}
	stored, err := q.Group().Body(raftfsm.BodyRef(at.Body))
	if err != nil {
		return nil, 0 // it has left the queue meanwhile; a body that is damaged stops the group
	}
	m, err := message.Decode(stored)
	if err != nil || !p.Filter.Matches(m) {
		return nil, len(stored)
	}
	out.OriginQueue, out.OriginExchange = m.FirstDeath.Queue, m.FirstDeath.Exchange
	if p.Detail >= leader.PeekHeads && at.Annotations != (quorumq.BodyRef{}) {
		if out.Annotations, err = q.Group().Body(raftfsm.BodyRef(at.Annotations)); err != nil {
			return nil, len(stored)
		}
	}
	switch p.Detail {
	case leader.PeekHeads:
		m.Body = nil
		out.Message = message.Append(nil, m)
	case leader.PeekBodies:
		out.Message = stored
	case leader.PeekPlaces, leader.PeekOrigin:
	}
	return out, len(stored) + len(out.Annotations)
}
