package broker

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strconv"
	"time"

	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// The global parameter with the secret that seals settle tokens, the same on all nodes. It is made
// once, when the first token is: of several nodes that make one the catalog takes the first.
const (
	settleComponent = "settle-token"
	settleKeyName   = "1"
)

// settleToken is what a settle token says: who took which message, and when.
type settleToken struct {
	gateway.ConsumerToken
	user string // "": where nobody logs in
	atMs int64  // milliseconds since the Unix epoch
}

// about names the settle token where its hold has ended, and when that began.
func (t *settleToken) about(err error, about failure.Error) failure.Error {
	if errors.Is(err, traffic.ErrNotHeld) || errors.Is(err, traffic.ErrConsumerGone) {
		about.Arg, about.Value = "settle_token", "given at "+time.UnixMilli(t.atMs).UTC().Format(time.RFC3339)
	}
	return about
}

// settleSeal makes the tokens of a user.
type settleSeal struct {
	key  []byte
	user string
	at   time.Time
}

func (s *settleSeal) text(t gateway.ConsumerToken) string {
	return encodeToken(settleToken{ConsumerToken: t, user: s.user, atMs: s.at.UnixMilli()}, s.key)
}

// settleSeal is for what the context's caller takes. Error: Unavailable if there is no secret yet
// and none can be made.
func (b *Broker) settleSeal(ctx context.Context) (s settleSeal, err error) {
	if s.key, err = b.settleKey(ctx); err != nil {
		return s, err
	}
	who, err := b.Logins.Who(ctx)
	if who != nil {
		s.user = who.User()
	}
	s.at = b.now()
	return s, err
}

// settleKey returns the cluster's secret, which it makes if there is none.
func (b *Broker) settleKey(ctx context.Context) ([]byte, error) {
	v := b.view()
	if p, ok := v.Parameter("", settleComponent, settleKeyName); ok {
		return []byte(p.Value), nil
	}
	reply, err := b.commands.Propose(ctx, failure.Error{Kind: "settle token"}, &catalog.PutParameter{OnlyNew: true, Parameter: catalog.Parameter{
		Component: settleComponent, Name: settleKeyName, Value: rand.Text() + rand.Text(),
	}}, nil)
	if !administration.Existed(err) {
		return nil, err
	}
	c := b.cluster
	if err := c.AwaitView(ctx, reply.Index); err != nil { // it was there, and this node's view too old to show it
		return nil, failure.Translate(err, failure.Error{Kind: "settle token"})
	}
	if p, ok := c.View().Parameter("", settleComponent, settleKeyName); ok {
		return []byte(p.Value), nil
	}
	return nil, serving.ErrStale(nil)
}

// tokenToSettle reads a token of what the caller holds, of a queue that it may read. An
// administrator may settle for others.
func (b *Broker) tokenToSettle(ctx context.Context, token string) (*cluster.Cluster, settleToken, failure.Error, error) {
	about := failure.Error{Kind: "message", Arg: "settle_token"}
	fail := func(err error) (*cluster.Cluster, settleToken, failure.Error, error) {
		return nil, settleToken{}, about, err
	}
	sealed, err := splitToken(token)
	if err != nil {
		about.Class, about.Reason = failure.PreconditionFailed, err.Error()
		return fail(&about)
	}
	key, err := b.settleKey(ctx)
	if err != nil {
		return fail(err)
	}
	t, err := sealed.open(key)
	if err != nil {
		about.Class, about.Reason = failure.PreconditionFailed, err.Error()
		return fail(&about)
	}
	who, err := b.Logins.Who(ctx)
	if err != nil {
		return fail(err)
	}
	if who != nil && who.User() != t.user && !who.Is(identity.TagAdministrator) {
		about.Class, about.Reason = failure.AccessRefused, "was given to another user; settle as the one that took the message"
		return fail(&about)
	}
	c := b.cluster
	q, ok := c.View().QueueByUID(t.Queue)
	if !ok {
		about.Class, about.Kind, about.Name = failure.NotFound, "queue", t.Queue.String()
		about.Reason = "was deleted, and its messages with it"
		return fail(&about)
	}
	about.Kind, about.VHost, about.Name, about.Arg = "queue", q.VHost, q.Name, ""
	return c, t, about, b.Permissions.Permit(ctx, permission.Queue(about.VHost, about.Name), permission.Read)
}

// tokenVersion is the first byte of a token: version; queue, epoch, session, tag, message id and
// moment as uvarints; user and node, each with its length as uvarint; and the seal of all that.
// Version 1 had a checksum alone.
const tokenVersion = 2

// sealBytes are those of the HMAC-SHA256 that a token ends with.
const sealBytes = 16

func sealOf(body, key []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(body)
	return h.Sum(nil)[:sealBytes]
}

func encodeToken(t settleToken, key []byte) string {
	b := []byte{tokenVersion}
	for _, n := range [...]uint64{
		uint64(t.Queue), uint64(t.Consumer.Epoch), t.Consumer.Session, uint64(t.Consumer.Tag), uint64(t.MsgID), uint64(t.atMs), // not below 0
	} {
		b = binary.AppendUvarint(b, n)
	}
	for _, s := range [...]string{t.user, string(t.Consumer.Node)} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return base64.RawURLEncoding.EncodeToString(append(b, sealOf(b, key)...))
}

var errToken = errors.New("is not one that Get or Consume gave; send it back unchanged")

// sealedToken is a token that nobody has looked into yet.
type sealedToken struct{ body, seal []byte }

// splitToken reads a token's outer form.
func splitToken(s string) (sealedToken, error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	switch {
	case err != nil || len(b) < 1+sealBytes:
		return sealedToken{}, errToken
	case b[0] != tokenVersion:
		return sealedToken{}, errors.New("has version " + strconv.Itoa(int(b[0])) + ", this node reads version " + strconv.Itoa(tokenVersion) +
			": another build gave it; the message returns to its queue, get it again")
	}
	at := len(b) - sealBytes
	return sealedToken{body: b[:at], seal: b[at:]}, nil
}

// open checks the seal of a token and reads it.
func (s sealedToken) open(key []byte) (t settleToken, err error) {
	if !hmac.Equal(sealOf(s.body, key), s.seal) {
		return t, errToken
	}
	b := s.body[1:]
	var n [6]uint64
	for i := range n {
		v, size := binary.Uvarint(b)
		if size <= 0 {
			return t, errToken
		}
		n[i], b = v, b[size:]
	}
	var texts [2]string
	for i := range texts {
		v, size := binary.Uvarint(b)
		if size <= 0 || v > uint64(len(b)-size) {
			return t, errToken
		}
		texts[i], b = string(b[size:size+int(v)]), b[size+int(v):] // within b
	}
	if len(b) > 0 {
		return t, errToken
	}
	t.Queue, t.MsgID, t.atMs = id.QueueUID(n[0]), quorumq.MsgID(n[4]), int64(n[5])            // as encodeToken wrote it
	t.Consumer.Epoch, t.Consumer.Session, t.Consumer.Tag = id.Epoch(n[1]), n[2], uint32(n[3]) // as encodeToken wrote it
	t.user, t.Consumer.Node = texts[0], id.NodeID(texts[1])
	return t, nil
}
