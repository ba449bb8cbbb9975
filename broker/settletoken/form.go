package settletoken

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strconv"
	"time"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// Token is what a settle token contains: which user took which message, and when. The zero value is no token.
type Token struct {
	gateway.ConsumerToken
	user string // "": without login
	atMs int64  // milliseconds since the Unix epoch
}

// About completes about with the argument and with when the token was given, if err says that its hold on the message
// has ended (DEL-6).
func (t *Token) About(err error, about failure.Error) failure.Error {
	if errors.Is(err, traffic.ErrNotHeld) || errors.Is(err, traffic.ErrConsumerGone) {
		about.Arg, about.Value = "settle_token", "given at "+time.UnixMilli(t.atMs).UTC().Format(time.RFC3339)
	}
	return about
}

// tokenVersion is the first byte of a token. It is followed by queue, epoch, session, tag, message id and time as
// uvarints; user and node, each after its length as a uvarint; and the seal of everything before it. Version 1 had only
// a checksum.
const tokenVersion = 2

// sealBytes is the length of the seal, the first part of an HMAC-SHA256.
const sealBytes = 16

// sealOf returns the seal of a body. Without the key nobody can make a seal that open accepts.
func sealOf(body, key []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(body)
	return h.Sum(nil)[:sealBytes]
}

// encodeToken encodes a token in the form that tokenVersion describes. splitToken and open decode it.
func encodeToken(t Token, key []byte) string {
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

// errToken is the one error for every fault of a token.
var errToken = errors.New("is not one that Get or Consume gave; send it back unchanged")

// sealedToken is a token whose seal is not checked yet, so its body cannot be trusted.
type sealedToken struct{ body, seal []byte }

// splitToken decodes the outer form of a token.
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

// open checks the seal of a token and decodes its body.
func (s sealedToken) open(key []byte) (t Token, err error) {
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
