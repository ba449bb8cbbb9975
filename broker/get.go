package broker

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strconv"
	"time"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// Got is what Get took.
type Got struct {
	Delivery *Delivery // nil: nothing was ready
	Token    string    // for SettleToken; empty with auto-ack or without delivery
	Ready    uint64    // messages left
}

// Get takes one message (DEL-5).
func (b *Broker) Get(ctx context.Context, vhost, queue string, autoAck bool) (Got, error) {
	q, about, err := b.queueToRead(ctx, vhost, queue)
	if err != nil {
		return Got{}, err
	}
	cd, token, ready, err := q.Get(ctx, autoAck)
	if err != nil || cd == nil {
		return Got{Ready: ready}, translate(err, about)
	}
	d, _, err := decodeDelivery(cd)
	if err != nil {
		about.Class, about.Reason = Internal, "a stored message cannot be read: "+err.Error()
		return Got{}, &about
	}
	d.ID = 1
	g := Got{Delivery: &d, Ready: ready}
	if !autoAck {
		g.Token = encodeToken(token)
	}
	return g, nil
}

// SettleToken decides about a message that Get took, on whatever node (AM-8).
func (b *Broker) SettleToken(ctx context.Context, token string, o Outcome, failed bool, annotations message.Table, delay Delay) error {
	c, t, about, err := b.tokenToSettle(ctx, token)
	if err != nil {
		return err
	}
	if t.OfStream() {
		about.Class, about.Arg = PreconditionFailed, "settle_token"
		about.Reason = "is that of a Consume stream; settle its deliveries there, or publish with it"
		return &about
	}
	d, err := decision(o, failed, annotations, delay, about)
	if err != nil {
		return err
	}
	return translate(c.DecideToken(ctx, t, d), about)
}

// tokenToSettle reads a token of a queue that the caller may read.
func (b *Broker) tokenToSettle(ctx context.Context, token string) (*cluster.Cluster, cluster.ConsumerToken, Error, error) {
	about := Error{Kind: "message", Arg: "settle_token"}
	t, err := decodeToken(token)
	if err != nil {
		about.Class, about.Reason = PreconditionFailed, err.Error()
		return nil, t, about, &about
	}
	c, err := b.attachedCluster()
	if err != nil {
		return nil, t, about, err
	}
	if q, ok := c.View().QueueByUID(t.Queue); ok {
		about.Kind, about.VHost, about.Name = "queue", q.VHost, q.Name
	} else {
		about.Class, about.Kind, about.Name = NotFound, "queue", t.Queue.String()
		about.Reason = "was deleted, and its messages with it"
		return nil, t, about, &about
	}
	about.Arg = ""
	if err := b.permit(ctx, queueOf(about.VHost, about.Name), read); err != nil {
		return nil, t, about, err
	}
	return c, t, about, nil
}

// GiveBack returns a message that Get took, as when its client has gone (DEL-8). It is for
// listeners, and goes on after the client's connection, for a few seconds at most.
func (b *Broker) GiveBack(token string) error {
	ctx, stop := context.WithTimeout(WithIdentity(b.life, Itself()), giveBackTimeout)
	defer stop()
	return b.SettleToken(ctx, token, Return, true, nil, Delay{})
}

const giveBackTimeout = 5 * time.Second

// tokenVersion is the first byte of a token: version, queue, epoch, session, tag and
// message id as uvarints, the node's name, and the CRC32C of all that.
const tokenVersion = 1

func tokenSum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func encodeToken(t cluster.ConsumerToken) string {
	b := []byte{tokenVersion}
	for _, n := range [...]uint64{
		uint64(t.Queue), uint64(t.Consumer.Epoch), t.Consumer.Session, uint64(t.Consumer.Tag), uint64(t.MsgID),
	} {
		b = binary.AppendUvarint(b, n)
	}
	b = append(b, t.Consumer.Node...)
	return base64.RawURLEncoding.EncodeToString(binary.LittleEndian.AppendUint32(b, tokenSum(b)))
}

var errToken = errors.New("is not one that Get gave; send it back unchanged")

func decodeToken(s string) (t cluster.ConsumerToken, err error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) < 1+5+4 {
		return t, errToken
	}
	if b[0] != tokenVersion {
		return t, errors.New("has version " + strconv.Itoa(int(b[0])) + ", this node reads version " + strconv.Itoa(tokenVersion))
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if tokenSum(body) != sum {
		return t, errToken
	}
	var n [5]uint64
	at := 1
	for i := range n {
		v, size := binary.Uvarint(body[at:])
		if size <= 0 {
			return t, errToken
		}
		n[i], at = v, at+size
	}
	t.Queue, t.MsgID = id.QueueUID(n[0]), quorumq.MsgID(n[4])
	t.Consumer.Epoch, t.Consumer.Session, t.Consumer.Tag = id.Epoch(n[1]), n[2], uint32(n[3])
	t.Consumer.Node = id.NodeID(body[at:])
	return t, nil
}
