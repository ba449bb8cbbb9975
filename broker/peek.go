package broker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster/leader"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// Bounds of a page of Peek.
const (
	DefaultPeekLimit = 10
	MaxPeekLimit     = 1000
	// MaxPeekLooked is at how many messages one call looks.
	MaxPeekLooked = 20_000
	// MaxPeekBytes bounds the stored bytes that a page with bodies shows, if it is more than one
	// message.
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

// MessageFilter chooses messages; the zero value chooses all. All that is set must hold.
type MessageFilter struct {
	// Numbers are those of Peeked; a message has one of them.
	Numbers []uint64
	message.Filter
}

// Validate refuses a filter that is too large.
func (f *MessageFilter) Validate() error {
	const most = 1000
	if len(f.Numbers) > most || len(f.MessageIDs) > most {
		return &failure.Error{Class: failure.PreconditionFailed, Kind: "filter", Arg: "numbers", Reason: "more than 1000 numbers or message ids; ask for fewer at a time"}
	}
	if err := message.CheckTable("headers", f.Headers); err != nil {
		return failure.Translate(err, failure.Error{Kind: "filter"})
	}
	return nil
}

// Peek asks for a page of messages.
type Peek struct {
	VHost, Queue string
	Part         Part
	Filter       MessageFilter
	Skip         uint64 // messages that are left out first, before the filter
	FromNumber   uint64 // only messages with this number or a higher one
	Limit        int    // 0: DefaultPeekLimit, at most MaxPeekLimit
	Bodies       bool
	Token        string // of the page before
}

// Peeked is a message as it stands in its queue.
type Peeked struct {
	Delivery
	Number       uint64
	BodyBytes    uint32
	Priority     uint8
	AtMs         int64
	ExpiresMs    int64  // 0: never
	DueMs        int64  // of delayed ones: when it will be ready
	ConsumerNode string // of unsettled ones
	Reason       string // of dead letters in the backlog
	Destination  string // of moved messages in the backlog
}

// Peek shows messages of a queue as its leader has them; nothing in the queue changes. It
// returns the token of the next page, "" on the last, and at how many it has looked.
func (b *Broker) Peek(ctx context.Context, p Peek) (page []Peeked, next string, looked int, err error) {
	q, about, err := b.queueToRead(ctx, p.VHost, p.Queue)
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
		if ask.Limit == 0 || looked >= MaxPeekLooked || read >= MaxPeekBytes {
			return page, encodeCursor(ask.From), looked, nil
		}
	}
}

// peeked reads a message as its leader has sent it. Without heads its stored form is empty, and an error.
func peeked(m *leader.Peeked) (Peeked, error) {
	d, _, err := decodeDelivery(&traffic.Delivery{
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
		out.Destination = destinationText(m.To)
	}
	return out, err
}

// destinationText shows a destination in a line.
func destinationText(d *quorumq.Destination) string {
	s := d.Kind.String()
	if d.Kind == quorumq.ToQueue || d.Kind == quorumq.ToExchange {
		s += " " + strconv.Quote(d.Name)
	}
	if d.HasKey {
		s += ", key " + strconv.Quote(d.Key)
	}
	return s
}

func encodeCursor(f quorumq.PeekFrom) string {
	b, _ := json.Marshal(f) // numbers alone
	return base64.RawURLEncoding.EncodeToString(b)
}

// decodeCursor is the counterpart of encodeCursor; "" leaves into as it is.
func decodeCursor(token string, into *quorumq.PeekFrom) error {
	if token == "" {
		return nil
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		return badPageToken(token)
	}
	return nil
}
