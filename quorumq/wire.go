package quorumq

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/quorate/quorate/id"
)

// MaxNodeIDBytes limits the name of a node in stored commands and snapshots.
const MaxNodeIDBytes = 255

// maxInternedNodes limits the names that a reader keeps for reuse.
const maxInternedNodes = 1024

// ErrNewer reports bytes of a version or kind that only a newer build knows.
var ErrNewer = errors.New("written by a newer version of Quorate")

var (
	errShort     = errors.New("quorumq: bytes end too early")
	errVarint    = errors.New("quorumq: number is not in its shortest form or too large")
	errNodeID    = fmt.Errorf("quorumq: node name is empty or longer than %d bytes", MaxNodeIDBytes)
	errTrailing  = errors.New("quorumq: bytes follow the end")
	errFlags     = errors.New("quorumq: unknown flags")
	errVersion   = errors.New("quorumq: the version is not the one that brought what follows")
	errUnit      = errors.New("quorumq: a unit of messages does not end")
	errCount     = errors.New("quorumq: count exceeds the bytes that follow")
	errZero      = errors.New("quorumq: number or tag 0 where numbering starts at 1")
	errRange     = errors.New("quorumq: value is out of its range")
	errRanges    = errors.New("quorumq: range ends before it starts")
	errForm      = errors.New("quorumq: block is not in the one form of its records")
	errUnordered = errors.New("quorumq: entries are not in ascending order")
)

// reader reads numbers from stored bytes. After the first error it returns zeros.
type reader struct {
	b       []byte
	version byte // of a snapshot
	err     error
	nodes   map[string]id.NodeID // interned names; nil: none are kept
}

// fail keeps the first error; nothing more is read after it.
func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
		r.b = nil
	}
}

// check fails unless ok.
func (r *reader) check(ok bool, err error) {
	if !ok {
		r.fail(err)
	}
}

// byte reads one byte.
func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail(errShort)
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

// u reads an unsigned varint in its shortest form.
func (r *reader) u() uint64 {
	if len(r.b) > 0 && r.b[0] < 0x80 {
		v := r.b[0]
		r.b = r.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(r.b)
	switch {
	case n == 0:
		r.fail(errShort)
		return 0
	case n < 0 || r.b[n-1] == 0:
		r.fail(errVarint)
		return 0
	}
	r.b = r.b[n:]
	return v
}

// upTo reads a number of at most limit.
func (r *reader) upTo(limit uint64) uint64 {
	v := r.u()
	if v > limit {
		r.fail(errRange)
		return 0
	}
	return v
}

func (r *reader) u32() uint32 { return uint32(r.upTo(1<<32 - 1)) }

// i reads a number from 0 to 2^63-1.
func (r *reader) i() int64 { return int64(r.upTo(1<<63 - 1)) }

// limit reads a limit: 0 is Unlimited, all others are stored as their value plus one.
func (r *reader) limit() int64 { return int64(r.upTo(1<<63-1)) - 1 }

// z reads a signed number in zigzag form.
func (r *reader) z() int64 {
	v := r.u()
	return int64(v>>1) ^ -int64(v&1)
}

// flags reads a byte in which only the bits of known may be set.
func (r *reader) flags(known byte) byte {
	v := r.byte()
	if v&^known != 0 {
		r.fail(errFlags)
		return 0
	}
	return v
}

// count reads a number of entries of at least size bytes each. It checks the number against the
// bytes that are left before anything is allocated.
func (r *reader) count(size int) int {
	n := r.u()
	if n > uint64(len(r.b)/size) {
		r.fail(errCount)
		return 0
	}
	return int(n)
}

// node reads the name of a node, which must not be empty.
func (r *reader) node() id.NodeID {
	n := r.u()
	if n == 0 || n > MaxNodeIDBytes {
		r.fail(errNodeID)
		return ""
	}
	if uint64(len(r.b)) < n {
		r.fail(errShort)
		return ""
	}
	name := r.b[:n]
	r.b = r.b[n:]
	return r.intern(name)
}

// intern returns a name, without allocating if it is known already.
func (r *reader) intern(name []byte) id.NodeID {
	if known, ok := r.nodes[string(name)]; ok {
		return known
	}
	v := id.NodeID(name)
	if r.nodes != nil && len(r.nodes) < maxInternedNodes {
		r.nodes[string(v)] = v
	}
	return v
}

// end returns the first error, or that bytes are left.
func (r *reader) end() error {
	if r.err == nil && len(r.b) > 0 {
		return errTrailing
	}
	return r.err
}

func putU(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

// putLimit writes what reader.limit reads.
func putLimit(b []byte, v int64) []byte { return putU(b, uint64(max(v, Unlimited)+1)) }

func putZ(b []byte, v int64) []byte { return putU(b, uint64(v)<<1^uint64(v>>63)) }

// putNode writes what reader.node reads.
func putNode(b []byte, n id.NodeID) []byte {
	n = n[:min(len(n), MaxNodeIDBytes)]
	return append(putU(b, uint64(len(n))), n...)
}

// putBool writes what reader.bool reads.
func putBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// bool reads a byte of 0 or 1.
func (r *reader) bool() bool { return r.flags(1) != 0 }

func putSession(b []byte, k SessionKey) []byte {
	return putU(putU(putNode(b, k.Node), uint64(k.Epoch)), k.Session)
}

func (r *reader) session() SessionKey {
	return SessionKey{Node: r.node(), Epoch: id.Epoch(r.u()), Session: r.u()}
}

// putText writes a name or key of a destination.
func putText(b []byte, s string) []byte {
	s = s[:min(len(s), MaxDestinationBytes)]
	return append(putU(b, uint64(len(s))), s...)
}

// text reads what putText writes.
func (r *reader) text() string {
	n := r.upTo(MaxDestinationBytes)
	if uint64(len(r.b)) < n {
		r.fail(errShort)
		return ""
	}
	name := r.b[:n]
	r.b = r.b[n:]
	return string(r.intern(name))
}

func putConsumer(b []byte, k ConsumerKey) []byte {
	return putU(putSession(b, k.SessionKey), uint64(k.Tag))
}

func (r *reader) consumer() ConsumerKey {
	return ConsumerKey{SessionKey: r.session(), Tag: r.u32()}
}

// MaxDestinationBytes limits the name and the key of a destination.
const MaxDestinationBytes = 255

// inv returns the error about a broken invariant.
func inv(format string, args ...any) error {
	return fmt.Errorf("quorumq: state is inconsistent: "+format, args...)
}
