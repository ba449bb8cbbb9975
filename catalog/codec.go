package catalog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
)

// Format versions (docs/formats/catalog.md).
const (
	replyVersion    = 1
	replyOfConflict = 2 // for a redeclaration that differs; it carries the existing value
	snapshotVersion = 4
)

// Older snapshot versions that can still be read.
const (
	// snapshotWithoutEnd is from before queues that dead-letter their messages when they are deleted.
	snapshotWithoutEnd = 2
	// snapshotOfFirst is from before finalised versions. It is written while VersionFirst is in force,
	// so that builds which know no other version can read it.
	snapshotOfFirst = 3
)

func appendString[S ~string](b []byte, s S) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// appendBool writes 1 or 0; a reader refuses any other byte.
func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// appendTable writes a table with its length in front, so that a reader can pass on exactly its
// bytes.
func appendTable(b []byte, t message.Table) []byte {
	if len(t) == 0 {
		return append(b, 0)
	}
	bytes := message.AppendTable(nil, t)
	b = binary.AppendUvarint(b, uint64(len(bytes)))
	return append(b, bytes...)
}

// appendStrings writes the number of strings, then each with its length.
func appendStrings(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

// appendNodeIDs writes the number of nodes, then each with its length.
func appendNodeIDs(b []byte, ids []id.NodeID) []byte {
	b = binary.AppendUvarint(b, uint64(len(ids)))
	for _, n := range ids {
		b = appendString(b, n)
	}
	return b
}

var (
	errShort     = errors.New("cut short")
	errNumber    = errors.New("malformed number")
	errNoBoolean = errors.New("neither 0 nor 1")
)

// reader walks over b; after the first error it returns zero values. Strings are copies.
type reader struct {
	what string // "command", "snapshot", for error texts
	b    []byte
	at   int
	form byte // its format version
	// machine is the version that a node must know to read the bytes: that of a command, or the
	// finalised version of a snapshot.
	machine Version
	err     error
}

// fail keeps the first error with its place and moves to the end, so that loops over counts stop.
func (r *reader) fail(part string, err error) {
	if r.err == nil {
		r.err = fmt.Errorf("catalog: %s: %s at byte %d: %w", r.what, part, r.at, err)
		r.at = len(r.b)
	}
}

// size reads a number of members.
func (r *reader) size(part string) int {
	n := r.uvarint(part)
	if r.err == nil && n > MaxMembers {
		r.fail(part, fmt.Errorf("%d, the limit is %d", n, MaxMembers))
		return 0
	}
	return int(n)
}

// version reads the first byte and checks that it is one of oldest to newest.
func (r *reader) version(oldest, newest byte) {
	if r.form = r.byte("version"); r.err == nil && (r.form < oldest || r.form > newest) {
		r.at--
		if r.form > newest {
			r.fail("version", fmt.Errorf("%w: format version %d, this build reads version %d", ErrNewer, r.form, newest))
			return
		}
		r.fail("version", fmt.Errorf("format version %d, this build reads versions %d to %d", r.form, oldest, newest))
	}
}

// replyVersion reads the first byte of a reply.
func (r *reader) replyVersion() byte {
	v := r.byte("version")
	if r.err == nil && v != replyVersion && v != replyOfConflict {
		r.at--
		r.fail("version", fmt.Errorf("format version %d, this build reads versions %d and %d", v, replyVersion, replyOfConflict))
	}
	return v
}

// end checks that no bytes are left.
func (r *reader) end() error {
	if r.err == nil && r.at != len(r.b) {
		r.fail("end", fmt.Errorf("%d bytes left over", len(r.b)-r.at))
	}
	return r.err
}

// byte reads one byte; 0 after an error.
func (r *reader) byte(part string) byte {
	if r.at >= len(r.b) {
		r.fail(part, errShort)
		return 0
	}
	r.at++
	return r.b[r.at-1]
}

// bool reads 0 or 1. Other values are an error: a state has exactly one byte form.
func (r *reader) bool(part string) bool {
	v := r.byte(part)
	if v > 1 {
		r.fail(part, errNoBoolean)
	}
	return v == 1
}

// uvarint accepts only the shortest form, so that each number has one encoding.
func (r *reader) uvarint(part string) uint64 {
	if r.err != nil {
		return 0
	}
	n, size := binary.Uvarint(r.b[r.at:])
	switch {
	case size == 0:
		r.fail(part, errShort)
		return 0
	case size < 0, size > 1 && r.b[r.at+size-1] == 0:
		r.fail(part, errNumber)
		return 0
	}
	r.at += size
	return n
}

func (r *reader) varint(part string) int64 {
	u := r.uvarint(part)
	return int64(u>>1) ^ -int64(u&1)
}

// count reads a number of elements, each of which takes a byte at least.
func (r *reader) count(part string) int {
	n := r.uvarint(part)
	if n > uint64(len(r.b)-r.at) {
		r.fail(part, errShort)
		return 0
	}
	return int(n)
}

// string reads a length and that many bytes, and copies them.
func (r *reader) string(part string) string {
	n := r.count(part)
	r.at += n
	return string(r.b[r.at-n : r.at])
}

// strings reads a list and stops at the first error. It grows the slice as it reads, so a forged
// count allocates nothing.
func (r *reader) strings(part string) (list []string) {
	for range r.count(part) {
		if list = append(list, r.string(part)); r.err != nil {
			return nil
		}
	}
	return list
}

// table reads a table and checks that its bytes fill the length in front and hold a field, since an
// empty table has length 0.
func (r *reader) table(part string) message.Table {
	n := r.count(part)
	if r.err != nil || n == 0 {
		return nil
	}
	t, rest, err := message.DecodeTable(r.b[r.at : r.at+n])
	if err == nil && (len(rest) > 0 || len(t) == 0) {
		err = errors.New("length and contents disagree")
	}
	if err != nil {
		r.fail(part, err)
		return nil
	}
	r.at += n
	return t
}

// nodeIDs reads at most MaxMembers node names.
func (r *reader) nodeIDs(part string) []id.NodeID {
	n := r.count(part)
	if n > MaxMembers {
		r.fail(part, fmt.Errorf("%d nodes, the limit is %d", n, MaxMembers))
		return nil
	}
	if n == 0 {
		return nil
	}
	ids := make([]id.NodeID, n)
	for i := range ids {
		ids[i] = id.NodeID(r.string(part))
	}
	return ids
}

// destinationKind reads the kind of a binding's destination and refuses unknown ones.
func (r *reader) destinationKind(part string) DestinationKind {
	k := DestinationKind(r.byte(part))
	if k > ToExchange {
		r.fail(part, fmt.Errorf("unknown kind of destination %d", k))
	}
	return k
}
