package broker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/messages"
	"github.com/quorate/quorate/cluster/leader"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
)

// Bounds of a page of Peek.
const (
	DefaultPeekLimit = 10
	MaxPeekLimit     = 1000
	// MaxPeekBytes limits the stored bytes on a page with bodies. A page has at least one message, whatever its size.
	MaxPeekBytes = 4 << 20
)

// The parts of a queue that Peek shows.
const (
	PartReady     = quorumq.PartReady
	PartUnsettled = quorumq.PartUnsettled
	PartBacklog   = quorumq.PartBacklog
	PartDelayed   = quorumq.PartDelayed
)

// Part is one of the places where a queue keeps messages.
type Part = quorumq.Part

// Peek asks for a page of messages of a queue.
type Peek struct {
	VHost, Queue string
	Part         Part
	Filter       messages.Filter
	Skip         uint64 // how many messages to skip, before the filter applies
	FromNumber   uint64 // only messages with this number or a higher one
	Limit        int    // 0: DefaultPeekLimit, at most MaxPeekLimit
	Bodies       bool
	Token        string // of the previous page
}

// Peeked is a message as it is in its queue.
type Peeked struct {
	Delivery
	Number       uint64
	BodyBytes    uint32
	Priority     uint8
	AtMs         int64
	ExpiresMs    int64  // 0: never
	DueMs        int64  // when a delayed message becomes ready
	ConsumerNode string // the consumer's node, of an unsettled message
	Reason       string // why a message in the backlog was discarded
	Destination  string // where a moved message in the backlog goes
}

// Peek returns messages of a queue as its leader has them, and changes nothing in the queue. It returns the token of
// the next page, "" on the last one, and how many messages it has examined.
func (b *Broker) Peek(ctx context.Context, p Peek) (page []Peeked, next string, looked int, err error) {
	q, about, err := b.Queues.ToRead(ctx, p.VHost, p.Queue)
	if err != nil {
		return nil, "", 0, err
	}
	from := quorumq.PeekFrom{Part: p.Part, Skip: p.Skip, Number: p.FromNumber}
	if err := errors.Join(p.Filter.Validate(), decodeCursor(p.Token, &from)); err != nil {
		return nil, "", 0, failure.Translate(err, about)
	}
	if p.Limit <= 0 {
		p.Limit = DefaultPeekLimit
	}
	ask := leader.Peek{
		From: from, Limit: min(p.Limit, MaxPeekLimit), Filter: p.Filter.Filter, Numbers: p.Filter.Numbers, Detail: leader.PeekHeads,
	}
	if p.Bodies {
		ask.Detail = leader.PeekBodies
	}
	c := b.cluster
	for read := 0; ; {
		got, err := c.Leaders().Peek(ctx, q.UID(), ask)
		if err != nil {
			return nil, "", looked, failure.Translate(err, about)
		}
		for i := range got.Messages {
			m, err := peeked(&got.Messages[i])
			if err != nil {
				return nil, "", looked, errUnreadable(err, about)
			}
			page = append(page, m)
			read += len(got.Messages[i].Message)
		}
		looked += got.Looked
		ask.From, ask.Limit = got.Next, ask.Limit-len(got.Messages)
		if !got.More {
			return page, "", looked, nil
		}
		if ask.Limit == 0 || looked >= messages.MaxPeekLooked || read >= MaxPeekBytes {
			return page, encodeCursor(ask.From), looked, nil
		}
	}
}

// peeked decodes a message that the queue's leader has sent. If the leader was asked for less than heads, it has sent
// no stored form, and peeked fails.
func peeked(m *leader.Peeked) (Peeked, error) {
	var d Delivery
	_, err := decodeDelivery(&d, &traffic.Delivery{
		Delivery: quorumq.Delivery{DeliveryCount: m.DeliveryCount, AcquiredCount: m.AcquiredCount}, Message: m.Message, Annotations: m.Annotations,
	})
	out := Peeked{
		Delivery: d, Number: m.Number, BodyBytes: m.Size, Priority: m.Priority, AtMs: int64(m.At), ExpiresMs: int64(m.Expires),
		ConsumerNode: string(m.Consumer.Node), DueMs: int64(m.Due),
	}
	if m.Reason != 0 {
		out.Reason = m.Reason.String()
	}
	if m.To != nil {
		out.Destination = messages.DestinationText(m.To)
	}
	return out, err
}

// encodeCursor turns a position in the queue into the opaque text that clients send back.
func encodeCursor(f quorumq.PeekFrom) string {
	b, _ := json.Marshal(f) // cannot fail: it has only numbers
	return base64.RawURLEncoding.EncodeToString(b)
}

// decodeCursor is the inverse of encodeCursor; with "" it leaves into unchanged.
func decodeCursor(token string, into *quorumq.PeekFrom) error {
	if token == "" {
		return nil
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		return failure.BadPageToken(token)
	}
	return nil
}
