package backup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// maxNameBytes limits the names of a copy, as those of the catalog (C-3).
const maxNameBytes = 255

// Decode reads one block, which must fill b. The messages refer to b. It never panics, and allocates no more than a
// small multiple of len(b).
func Decode(b []byte) (Block, error) {
	n, err := size(b)
	if err != nil {
		return Block{}, err
	}
	if int64(len(b)) != n {
		return Block{}, damagedf("block has %d bytes, its head says %d", len(b), n)
	}
	body := b[:len(b)-sumBytes]
	if sum := crc32.Checksum(body, castagnoli()); sum != binary.LittleEndian.Uint32(b[len(b)-sumBytes:]) {
		return Block{}, damagedf("block has checksum %08x", sum)
	}
	r := &reader{b: body[headBytes:]}
	x := Block{Kind: Kind(b[1])}
	switch x.Kind {
	case KindHead:
		x.Head = r.head()
	case KindMessages:
		x.First, x.Messages = r.messages()
	case KindEnd:
		x.End = End{Messages: r.u(), Bytes: r.u()}
	default:
		return Block{}, fmt.Errorf("backup: %w: block of kind %d", ErrNewer, x.Kind)
	}
	if r.err == nil && len(r.b) > 0 {
		r.fail("%d bytes follow the end", len(r.b))
	}
	if r.err != nil {
		return Block{}, r.err
	}
	return x, nil
}

// size returns how many bytes the block has that begins with b, by its head.
func size(b []byte) (int64, error) {
	if len(b) < headBytes {
		return 0, damagedf("block of %d bytes", len(b))
	}
	if b[0] != Version {
		return 0, fmt.Errorf("backup: %w: block has version %d, this build knows %d", ErrNewer, b[0], Version)
	}
	n := int64(binary.LittleEndian.Uint32(b[4:])) + headBytes + sumBytes
	if b[2] != 0 || b[3] != 0 || n > MaxBlockBytes {
		return 0, damagedf("head of block %x", b[:headBytes])
	}
	return n, nil
}

// Read reads the next block's bytes into buf, which it returns, or io.EOF between two blocks.
func Read(from io.Reader, buf []byte) ([]byte, error) {
	buf = append(buf[:0], make([]byte, headBytes)...)
	if _, err := io.ReadFull(from, buf); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return buf, damagedf("a block is cut off")
		}
		return buf, err
	}
	n, err := size(buf)
	if err != nil {
		return buf, err
	}
	for int64(len(buf)) < n { // memory grows with what arrives, whatever the head claims
		at := len(buf)
		buf = append(buf, make([]byte, min(n-int64(at), 1<<20))...)
		if _, err := io.ReadFull(from, buf[at:]); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return buf, damagedf("a block is cut off")
			}
			return buf, err
		}
	}
	return buf, nil
}

// reader reads a payload. After the first error it returns zeros.
type reader struct {
	b   []byte
	err error
}

// fail keeps the first error; nothing more is read after it.
func (r *reader) fail(format string, a ...any) {
	if r.err == nil {
		r.err = damagedf(format, a...)
		r.b = nil
	}
}

// u reads a number in its shortest form.
func (r *reader) u() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || n > 1 && r.b[n-1] == 0 {
		r.fail("number is cut off or too long")
		return 0
	}
	r.b = r.b[n:]
	return v
}

// upTo reads a number up to a limit.
func (r *reader) upTo(most uint64) uint64 {
	v := r.u()
	if v > most {
		r.fail("number %d is above %d", v, most)
		return 0
	}
	return v
}

// byte reads one byte.
func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail("payload is cut off")
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

// bytes reads a length and as many bytes, which it does not copy.
func (r *reader) bytes() []byte {
	n := r.u()
	if n > uint64(len(r.b)) {
		r.fail("length %d is more than the %d bytes that follow", n, len(r.b))
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// text reads a name.
func (r *reader) text() string {
	b := r.bytes()
	if len(b) > maxNameBytes {
		r.fail("name has %d bytes", len(b))
		return ""
	}
	return string(b)
}

// head reads the payload of a head.
func (r *reader) head() Head {
	return Head{
		VHost: r.text(), Queue: r.text(), UID: id.QueueUID(r.u()), Index: r.u(),
		At: quorumq.Time(r.upTo(math.MaxInt64)), Messages: r.u(), Left: r.u(),
	}
}

// minMessageBytes is the size of the smallest message.
const minMessageBytes = 3

// messages reads the payload of a block of messages.
func (r *reader) messages() (first uint64, out []Message) {
	first = r.u()
	n := r.upTo(MaxBlockMessages)
	if first == 0 || n == 0 || first+n < first || n > uint64(len(r.b))/minMessageBytes {
		r.fail("%d messages from number %d on in %d bytes", n, first, len(r.b))
		return 0, nil
	}
	out = make([]Message, n)
	for i := range out {
		if out[i] = r.message(); r.err != nil {
			return 0, nil
		}
	}
	return first, out
}

// message reads one message, which refers to the payload.
func (r *reader) message() Message {
	flags := r.byte()
	if flags&^messageFlags != 0 {
		r.fail("unknown flags %02x", flags)
	}
	m := Message{TTLMs: quorumq.Unlimited, Priority: quorumq.DefaultPriority}
	m.Past.At = quorumq.Time(r.upTo(math.MaxInt64))
	if flags&flagTTL != 0 {
		m.TTLMs = int64(r.upTo(math.MaxInt64))
	}
	if flags&flagPriority != 0 {
		if m.Priority = r.byte(); m.Priority == quorumq.DefaultPriority {
			r.fail("default priority is written out")
		}
	}
	if flags&flagDue != 0 {
		if m.Due = quorumq.Time(r.upTo(math.MaxInt64)); m.Due == 0 {
			r.fail("due time 0")
		}
	}
	if flags&flagCounts != 0 {
		m.Past.DeliveryCount, m.Past.AcquiredCount = uint32(r.upTo(math.MaxUint32-1)), uint32(r.upTo(math.MaxUint32-1))
		if m.Past.DeliveryCount == 0 && m.Past.AcquiredCount == 0 {
			r.fail("counts of 0 are written out")
		}
	}
	if flags&flagReason != 0 {
		if m.Past.Reason = quorumq.Reason(r.byte()); m.Past.Reason == 0 || m.Past.Reason > quorumq.LastReason {
			r.fail("reason %d", m.Past.Reason)
		}
	}
	if flags&flagDestination != 0 {
		m.Past.To = r.destination()
	}
	if away := flags&(flagReason|flagDestination) != 0; away && (flags&flagDue != 0 || m.Past.Reason > 0 && m.Past.To != nil) {
		r.fail("message is in two places")
	}
	m.Stored = r.bytes()
	return m
}

// destination reads a destination that a message can have.
func (r *reader) destination() *quorumq.Destination {
	d := &quorumq.Destination{Kind: quorumq.DestinationKind(r.byte()), Name: r.text()}
	switch r.byte() {
	case 0:
	case 1:
		d.HasKey, d.Key = true, r.text()
	default:
		r.fail("boolean is neither 0 nor 1")
	}
	named := d.Kind == quorumq.ToQueue || d.Kind == quorumq.ToExchange
	if d.Kind == quorumq.ToNowhere || d.Kind > quorumq.ToOriginExchange || !named && d.Name != "" || d.HasKey && d.Kind != quorumq.ToExchange {
		r.fail("destination %+v", *d)
	}
	return d
}
