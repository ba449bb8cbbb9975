package cluster

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// Bounds of one call of PeekQueue.
const (
	maxPeekLooked = 2000    // messages that are looked at
	maxPeekBytes  = 4 << 20 // stored bytes that are read, if more than one message's
)

// PeekDetail says what is told of each message.
type PeekDetail uint8

// The details; each tells more than the one before.
const (
	PeekPlaces PeekDetail = iota // where it stands
	PeekOrigin                   // where it died first
	PeekHeads                    // all but its body
	PeekBodies                   // all
)

// Peek asks for a page of a queue's messages. Numbers, if there are any, are those that
// are chosen, besides what Filter says.
type Peek struct {
	From    quorumq.PeekFrom
	Limit   int // messages that are returned, from 1
	Filter  message.Filter
	Numbers []uint64
	Detail  PeekDetail
}

// PeekPage is a page of messages. It may be empty though there are more.
type PeekPage struct {
	Messages []PeekedMessage
	Next     quorumq.PeekFrom
	More     bool
	Looked   int // messages that were looked at
}

// PeekedMessage is a message as it stands in its queue; which fields count says the detail.
type PeekedMessage struct {
	quorumq.Peeked
	OriginQueue, OriginExchange string // of its first death
	Message, Annotations        []byte // stored forms, the message perhaps without its body
}

// PeekQueue looks at messages on the queue's leader; nothing in the queue changes. The
// answer is not older than the call.
func (c *Cluster) PeekQueue(ctx context.Context, q id.QueueUID, p Peek) (PeekPage, error) {
	ctx, cancel := c.commandContext(ctx)
	defer cancel()
	request := p.wire(q)
	var page PeekPage
	err := c.atLeader(ctx, q, func(to id.NodeID) (id.NodeID, error) {
		var r *nodev1.PeekQueueResponse
		var err error
		if to == c.cfg.Node {
			r, err = calls{c: c}.PeekQueue(ctx, request)
		} else {
			var peer nodev1.NodeClient
			if peer, err = c.mux.Client(to); err == nil {
				r, err = peer.PeekQueue(ctx, request)
			}
		}
		if err != nil {
			return "", err
		}
		if !r.GetLeads() {
			return id.NodeID(r.GetLeader()), fmt.Errorf("node %q does not lead it", to)
		}
		page = fromWirePage(r)
		return "", nil
	})
	return page, err
}

// PeekQueue looks at messages if this node leads their queue.
func (s calls) PeekQueue(ctx context.Context, r *nodev1.PeekQueueRequest) (*nodev1.PeekQueueResponse, error) {
	uid := id.QueueUID(r.GetQueue())
	q := s.c.host.Member(uid)
	if q == nil {
		s.c.host.Wake(uid)
		return nil, status.Error(codes.NotFound, s.c.host.NotHosted(uid).Error())
	}
	p, err := fromWirePeek(r)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := q.Barrier(ctx); err != nil {
		leader, _ := q.Group().Leader()
		return &nodev1.PeekQueueResponse{Leader: string(leader)}, nil //nolint:nilerr // it does not lead: the answer says who does
	}
	return peekAt(q, &p), nil
}

// peekAt looks at a page's worth of messages and tells of those that are chosen.
func peekAt(q *replica.Member, p *Peek) *nodev1.PeekQueueResponse {
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
	out.Next = wireCursor(from)
	return out
}

// look reads a message if that takes its body, and returns it if it is chosen, and how many
// bytes were read.
func look(q *replica.Member, p *Peek, at *quorumq.Peeked) (*nodev1.PeekedMessage, int) {
	if len(p.Numbers) > 0 && !slices.Contains(p.Numbers, at.Number) {
		return nil, 0
	}
	out := wirePeeked(at)
	if p.Filter.Empty() && p.Detail == PeekPlaces {
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
	if p.Detail >= PeekHeads && at.Annotations != (quorumq.BodyRef{}) {
		if out.Annotations, err = q.Group().Body(raftfsm.BodyRef(at.Annotations)); err != nil {
			return nil, len(stored)
		}
	}
	switch p.Detail {
	case PeekHeads:
		m.Body = nil
		out.Message = message.Append(nil, m)
	case PeekBodies:
		out.Message = stored
	case PeekPlaces, PeekOrigin:
	}
	return out, len(stored) + len(out.Annotations)
}

func (p *Peek) wire(q id.QueueUID) *nodev1.PeekQueueRequest {
	f := &nodev1.PeekFilter{
		Numbers: p.Numbers, MessageIds: p.Filter.MessageIDs, Dead: p.Filter.Dead,
		DeathQueue: p.Filter.Death.Queue, DeathReason: p.Filter.Death.Reason, DeathExchange: p.Filter.Death.Exchange,
	}
	if len(p.Filter.Headers) > 0 {
		f.Headers = message.AppendTable(nil, p.Filter.Headers)
	}
	return &nodev1.PeekQueueRequest{
		Queue: uint64(q), From: wireCursor(p.From), Limit: uint32(max(p.Limit, 1)), Filter: f, Detail: uint32(p.Detail),
	}
}

func fromWirePeek(r *nodev1.PeekQueueRequest) (Peek, error) {
	f := r.GetFilter()
	p := Peek{
		From: fromWireCursor(r.GetFrom()), Limit: int(r.GetLimit()), Numbers: f.GetNumbers(), Detail: PeekDetail(r.GetDetail()),
		Filter: message.Filter{
			MessageIDs: f.GetMessageIds(), Dead: f.GetDead(),
			Death: message.DeathOrigin{Queue: f.GetDeathQueue(), Reason: f.GetDeathReason(), Exchange: f.GetDeathExchange()},
		},
	}
	if len(f.GetHeaders()) == 0 {
		return p, nil
	}
	var err error
	p.Filter.Headers, _, err = message.DecodeTable(f.GetHeaders())
	return p, err
}

func wireCursor(f quorumq.PeekFrom) *nodev1.PeekCursor {
	return &nodev1.PeekCursor{
		Part: uint32(f.Part), Stage: uint32(f.Stage), Key: f.Key, Skip: f.Skip, Number: f.Number, Below: f.Below, Returns: f.Returns,
	}
}

func fromWireCursor(c *nodev1.PeekCursor) quorumq.PeekFrom {
	return quorumq.PeekFrom{
		Part: quorumq.Part(min(c.GetPart(), 255)), Stage: uint8(min(c.GetStage(), 255)), Key: c.GetKey(), Skip: c.GetSkip(),
		Number: c.GetNumber(), Below: c.GetBelow(), Returns: c.GetReturns(),
	}
}

func wirePeeked(p *quorumq.Peeked) *nodev1.PeekedMessage {
	out := &nodev1.PeekedMessage{
		Order: p.Place.Order, Return: p.Place.Return, Number: p.Number, Priority: uint32(p.Priority), Size: p.Size,
		At: int64(p.At), Expires: int64(p.Expires), DeliveryCount: p.DeliveryCount, AcquiredCount: p.AcquiredCount,
		ConsumerNode: string(p.Consumer.Node), Reason: uint32(p.Reason), Due: int64(p.Due),
	}
	if p.To != nil {
		out.Moved, out.ToKind, out.ToName, out.ToKey, out.ToHasKey = true, uint32(p.To.Kind), p.To.Name, p.To.Key, p.To.HasKey
	}
	return out
}

func fromWirePage(r *nodev1.PeekQueueResponse) PeekPage {
	page := PeekPage{Next: fromWireCursor(r.GetNext()), More: r.GetMore(), Looked: int(r.GetLooked())}
	for _, m := range r.GetMessages() {
		p := PeekedMessage{
			Peeked: quorumq.Peeked{
				Place: quorumq.Place{Order: m.GetOrder(), Return: m.GetReturn()}, Number: m.GetNumber(), Priority: uint8(m.GetPriority()),
				Size: m.GetSize(), At: quorumq.Time(m.GetAt()), Expires: quorumq.Time(m.GetExpires()),
				DeliveryCount: m.GetDeliveryCount(), AcquiredCount: m.GetAcquiredCount(), Reason: quorumq.Reason(m.GetReason()), Due: quorumq.Time(m.GetDue()),
			},
			OriginQueue: m.GetOriginQueue(), OriginExchange: m.GetOriginExchange(),
			Message: m.GetMessage(), Annotations: m.GetAnnotations(),
		}
		p.Consumer.Node = id.NodeID(m.GetConsumerNode())
		if m.GetMoved() {
			p.To = &quorumq.Destination{
				Kind: quorumq.DestinationKind(m.GetToKind()), Name: m.GetToName(), Key: m.GetToKey(), HasKey: m.GetToHasKey(),
			}
		}
		page.Messages = append(page.Messages, p)
	}
	return page
}
