package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// Limits of one record.
const (
	// MaxRecordBytes limits an entry with its head: offsets in a segment have 32 bits.
	MaxRecordBytes = 1 << 30
	// MaxExtensionBytes limits raft.Log.Extensions.
	MaxExtensionBytes = 1<<16 - 1
	// HeadBytes is the size of a record without its payload.
	HeadBytes = 48
)

// Kind is the kind of a record. See docs/formats/wal-segment.md.
type Kind uint8

// Kinds of records.
const (
	KindEntry    Kind = 1 // an entry of a group's log
	KindRetained Kind = 2 // an entry from a snapshot
	KindState    Kind = 3 // a group's term, vote and bounds of its log, as a whole
	KindKeep     Kind = 4 // which entries below the first index a range of indexes has
	KindDeleted  Kind = 5 // nothing before it belongs to the group
	KindFooter   Kind = 6 // the index of a sealed segment
)

// String returns the name used by the dump.
func (k Kind) String() string {
	switch k {
	case KindEntry:
		return "entry"
	case KindRetained:
		return "retained"
	case KindState:
		return "state"
	case KindKeep:
		return "keep"
	case KindDeleted:
		return "deleted"
	case KindFooter:
		return "footer"
	default:
		return fmt.Sprintf("kind %d", uint8(k))
	}
}

// Cause is the reason why a state record was written; recovery ignores it.
type Cause uint8

// Causes of state records.
const (
	CauseCreate Cause = 1 + iota // the group's first record
	CauseTerm                    // a new term
	CauseVote                    // a vote
	CausePrefix                  // the first index moved up
	CauseSuffix                  // a conflicting suffix was deleted
	CauseReset                   // the log starts over at another index
	CauseCarry                   // its segment is to be freed
	CauseLost                    // an entry cannot be read
)

// String returns the name used by the dump.
func (c Cause) String() string {
	names := [...]string{"create", "term", "vote", "prefix", "suffix", "reset", "carry", "lost"}
	if c >= 1 && int(c) <= len(names) {
		return names[c-1]
	}
	return fmt.Sprintf("cause %d", uint8(c))
}

// MarshalText implements encoding.TextMarshaler for the dump.
func (c Cause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// record is a record's head and payload. What index and term mean for other kinds than
// entries stands at the codecs of those kinds.
type record struct {
	kind   Kind
	typ    uint8 // raft.LogType of an entry, Cause of a state
	group  id.GroupID
	index  uint64
	term   uint64
	time   int64  // nanoseconds since the Unix epoch, 0 is unknown
	ext    []byte // raft.Log.Extensions
	data   []byte
	stays  bool   // nobody changes data, as long as it is referred to
	synced uint32 // offset in the segment that was durable when the record was appended; of the first one: where the segment before ends
}

func (r *record) size() int { return HeadBytes + len(r.ext) + len(r.data) }

// entryRecord returns the record of an entry.
func entryRecord(kind Kind, group id.GroupID, e *raft.Log) record {
	r := record{
		kind: kind, typ: uint8(e.Type), group: group, index: e.Index, term: e.Term,
		ext: e.Extensions, data: e.Data,
	}
	if !e.AppendedAt.IsZero() {
		r.time = e.AppendedAt.UnixNano()
	}
	return r
}

// entry fills in an entry; its bytes are the record's.
func (r *record) entry(out *raft.Log) {
	*out = raft.Log{Index: r.index, Term: r.term, Type: raft.LogType(r.typ), Data: r.data, Extensions: r.ext}
	if r.time != 0 {
		out.AppendedAt = time.Unix(0, r.time)
	}
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// appendTo appends the record's bytes.
func (r *record) appendTo(b []byte, salt uint32) []byte {
	return append(r.appendHead(b, salt), r.data...)
}

// appendHead appends the record's bytes without its data, which must follow. The salt goes into the checksum by
// exclusive or, so an intact record of another generation of the file can never pass for one of this.
func (r *record) appendHead(b []byte, salt uint32) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(r.size()))
	b = append(b, byte(r.kind), r.typ)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(r.ext)))
	b = binary.LittleEndian.AppendUint32(b, r.synced)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.group))
	b = binary.LittleEndian.AppendUint64(b, r.index)
	b = binary.LittleEndian.AppendUint64(b, r.term)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.time))
	b = append(b, r.ext...)
	sum := crc32.Update(checksum(b[at+4:]), crc32.MakeTable(crc32.Castagnoli), r.data)
	binary.LittleEndian.PutUint32(b[at:], sum^salt)
	return b
}

// recordSize returns the size that a record's first bytes claim, 0 if they cannot begin
// a record of at most limit bytes.
func recordSize(head []byte, limit int64) int {
	if len(head) < HeadBytes {
		return 0
	}
	size := int64(binary.LittleEndian.Uint32(head[4:]))
	ext := int64(binary.LittleEndian.Uint16(head[10:]))
	kind := Kind(head[8])
	if size < HeadBytes+ext || size > limit || kind < KindEntry || kind > KindFooter {
		return 0
	}
	return int(size)
}

// parseRecord reads the record that fills b; its bytes are b's. False if the checksum
// differs.
func parseRecord(b []byte, salt uint32) (record, bool) {
	if len(b) < HeadBytes || recordSize(b, int64(len(b))) != len(b) || binary.LittleEndian.Uint32(b)^salt != checksum(b[4:]) {
		return record{}, false
	}
	ext := HeadBytes + int(binary.LittleEndian.Uint16(b[10:]))
	r := record{
		kind: Kind(b[8]), typ: b[9],
		synced: binary.LittleEndian.Uint32(b[12:]),
		group:  id.GroupID(binary.LittleEndian.Uint64(b[16:])),
		index:  binary.LittleEndian.Uint64(b[24:]),
		term:   binary.LittleEndian.Uint64(b[32:]),
		time:   int64(binary.LittleEndian.Uint64(b[40:])),
	}
	if ext > HeadBytes {
		r.ext = b[HeadBytes:ext:ext]
	}
	if len(b) > ext {
		r.data = b[ext:]
	}
	return r, true
}
