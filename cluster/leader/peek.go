package leader

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
	"github.com/quorate/quorate/message"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
)

// Detail selects what is shown of each message.
type Detail uint8

// The details; each has more than the one before.
const (
	PeekPlaces Detail = iota // where it stands
	PeekOrigin               // where it died first
	PeekHeads                // all but its body
	PeekBodies               // all
)

// Peek asks for a page of a queue's messages. Numbers, if there are any, are those that
// are chosen, besides what Filter says.
type Peek struct {
	From    quorumq.PeekFrom
	Limit   int // messages that are returned, from 1
	Filter  message.Filter
	Numbers []uint64
	Detail  Detail
}

// Page is a page of messages. It may be empty though there are more.
type Page struct {
	Messages []Peeked
	Next     quorumq.PeekFrom
	More     bool
	Looked   int // messages that were examined
}

// Peeked is a message in its queue; Detail decides which fields are set.
type Peeked struct {
	quorumq.Peeked
	OriginQueue, OriginExchange string // of its first death
	Message, Annotations        []byte // stored forms, the message perhaps without its body
}

// Decode decodes the message, and adds the annotations that returns and discards gave it. It fails if the detail was less
// than PeekHeads.
func (p *Peeked) Decode() (m message.Message, err error) {
	if err := message.DecodeInto(&m, p.Message); err != nil {
		return m, err
	}
	if p.Annotations != nil {
		_, err = m.Annotate(p.Annotations)
	}
	return m, err
}

// Peek reads messages on a queue's leader; nothing in the queue changes. The answer is not older than the call.
func (l *Leaders) Peek(ctx context.Context, q id.QueueUID, p Peek) (Page, error) {
	ctx, cancel := wait.Within(ctx, l.cfg.Life, l.cfg.CommandTimeout)
	defer cancel()
	request := p.wire(q)
	var page Page
	err := l.at(ctx, q, func(to id.NodeID) (id.NodeID, error) {
		r, err := l.peekAt(ctx, to, request)
		if err != nil {
			return "", err
		}
		if !r.GetLeads() {
			return id.NodeID(r.GetLeader()), fmt.Errorf("node %q does not lead it", to)
		}
		page = fromPage(r)
		return "", nil
	})
	return page, err
}

// peekAt asks a node, which may be this one.
func (l *Leaders) peekAt(ctx context.Context, to id.NodeID, request *nodev1.PeekQueueRequest) (*nodev1.PeekQueueResponse, error) {
	if to == l.cfg.Node {
		return l.cfg.Own.PeekQueue(ctx, request)
	}
	peer, err := l.cfg.Transport.Client(to)
	if err != nil {
		return nil, err
	}
	return peer.PeekQueue(ctx, request)
}

// wire returns the question as nodes send it; a limit below 1 is 1.
func (p *Peek) wire(q id.QueueUID) *nodev1.PeekQueueRequest {
	f := &nodev1.PeekFilter{
		Numbers: p.Numbers, MessageIds: p.Filter.MessageIDs, Dead: p.Filter.Dead,
		DeathQueue: p.Filter.Death.Queue, DeathReason: p.Filter.Death.Reason, DeathExchange: p.Filter.Death.Exchange,
	}
	if len(p.Filter.Headers) > 0 {
		f.Headers = message.AppendTable(nil, p.Filter.Headers)
	}
	return &nodev1.PeekQueueRequest{
		Queue: uint64(q), From: ToCursor(p.From), Limit: uint32(max(p.Limit, 1)), Filter: f, Detail: uint32(p.Detail),
	}
}

// PeekOf reads a question for a page.
func PeekOf(r *nodev1.PeekQueueRequest) (Peek, error) {
	f := r.GetFilter()
	p := Peek{
		From: fromCursor(r.GetFrom()), Limit: int(r.GetLimit()), Numbers: f.GetNumbers(), Detail: Detail(r.GetDetail()),
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

// ToCursor returns a place to go on from as nodes send it to one another.
func ToCursor(f quorumq.PeekFrom) *nodev1.PeekCursor {
	return &nodev1.PeekCursor{
		Part: uint32(f.Part), Stage: uint32(f.Stage), Key: f.Key, Skip: f.Skip, Number: f.Number, Below: f.Below, Returns: f.Returns,
	}
}

// fromCursor cuts numbers to their range: what a peer says is input.
func fromCursor(c *nodev1.PeekCursor) quorumq.PeekFrom {
	return quorumq.PeekFrom{
		Part: quorumq.Part(min(c.GetPart(), 255)), Stage: uint8(min(c.GetStage(), 255)), Key: c.GetKey(), Skip: c.GetSkip(),
		Number: c.GetNumber(), Below: c.GetBelow(), Returns: c.GetReturns(),
	}
}

// ToPeeked returns what a queue knows of a message as nodes send it to one another.
func ToPeeked(p *quorumq.Peeked) *nodev1.PeekedMessage {
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

// fromPage returns a page of messages as the peer that leads has sent it.
func fromPage(r *nodev1.PeekQueueResponse) Page {
	page := Page{Next: fromCursor(r.GetNext()), More: r.GetMore(), Looked: int(r.GetLooked())}
	for _, m := range r.GetMessages() {
		p := Peeked{
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
