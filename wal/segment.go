package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal/vfs"
)

// Layout of a segment. See docs/formats/wal-segment.md.
const (
	headerMagic   = "QRTWALSG"
	trailerMagic  = "QRTWALND"
	formatVersion = 1

	headerBytes  = 64
	headerUsed   = 28 // of which are used
	trailerBytes = 32

	segmentSuffix = ".wal"
	sparePrefix   = "spare-"
	unreadPrefix  = "unread-"  // of a segment that was set aside: there is a gap, which has not ended
	damagedPrefix = "damaged-" // of the same since the gap has ended
	newName       = "new.tmp"
	lockName      = "LOCK"
)

// CorruptError reports that stored bytes differ from those that were written.
type CorruptError struct {
	Segment string // path of the file
	Offset  int64
	Reason  string
	Remedy  string
}

// Error implements error.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("wal: %s is corrupt at offset %d: %s: %s", e.Segment, e.Offset, e.Reason, e.Remedy)
}

// remedyGroup is the remedy that errors name for a group that has lost stored state.
const remedyGroup = "this member does not act again: it is rebuilt from its peers, by itself if they are a majority"

// segment is a file of the log. Fields are guarded by Log.mu.
type segment struct {
	seq  uint32
	salt uint32
	file vfs.File // nil until the roller has made it

	end    int64 // of the records
	size   int64 // of the file once it is sealed
	full   int64 // of the file before, as far as it is written; once there is a file the writer alone changes it
	live   int64 // bytes of records that are needed
	sealed bool  // nothing more is appended
	closed bool  // the seal is durable
	footer []byte
	listed listed

	refs    int      // readers
	freeing bool     // its file is being taken away
	stuck   bool     // cannot be compacted
	dead    bool     // nothing in it is live
	deadAt  Position // it may go when this is durable
}

// bytes returns what the segment takes on disk.
func (s *segment) bytes() int64 {
	if s.size != 0 {
		return s.size
	}
	return max(s.full, s.end)
}

func segmentName(seq uint32) string { return fmt.Sprintf("%08x%s", seq, segmentSuffix) }
func spareName(seq uint32) string   { return sparePrefix + segmentName(seq) }

// parseName returns a segment's number.
func parseName(name string) (uint32, bool) {
	hex, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(hex) != 8 {
		return 0, false
	}
	seq, err := strconv.ParseUint(hex, 16, 32)
	return uint32(seq), err == nil && segmentName(uint32(seq)) == name
}

// saltOf makes a generation's salt of the log's secret. For one secret it maps different
// numbers to different salts; without the secret the salt cannot be guessed, so nobody can send a
// message that looks like a record.
func saltOf(seq uint32, secret uint64) uint32 {
	x := seq ^ uint32(secret)
	x ^= x >> 16
	x *= 0x85ebca6b
	x ^= x >> 13
	x *= 0xc2b2ae35
	x ^= x >> 16
	return x ^ uint32(secret>>32)
}

// errVersion is wrapped by the error of an intact header of a format that this program does not know.
var errVersion = errors.New("it was written by another version of the program")

// header is the head of a segment's file (docs/formats/wal-segment.md).
func header(seq uint32, secret uint64) []byte {
	b := make([]byte, 0, headerBytes)
	b = append(b, headerMagic...)
	b = binary.LittleEndian.AppendUint32(b, formatVersion)
	b = binary.LittleEndian.AppendUint32(b, seq)
	b = binary.LittleEndian.AppendUint64(b, secret)
	b = binary.LittleEndian.AppendUint32(b, checksum(b))
	return b[:headerBytes]
}

// parseHeader refuses versions that this build does not know by errVersion, and takes all else for damage.
func parseHeader(b []byte) (seq uint32, secret uint64, err error) {
	if len(b) < headerBytes || string(b[:8]) != headerMagic {
		return 0, 0, errors.New("it does not begin with a segment's header")
	}
	if checksum(b[:24]) != binary.LittleEndian.Uint32(b[24:]) {
		return 0, 0, errors.New("the header's checksum is wrong")
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != formatVersion {
		return 0, 0, fmt.Errorf("%w: the header says format version %d, this program knows %d", errVersion, v, formatVersion)
	}
	return binary.LittleEndian.Uint32(b[12:]), binary.LittleEndian.Uint64(b[16:]), nil
}

// appendTrailer appends what ends a sealed segment: where the footer is.
func appendTrailer(b []byte, seq, salt uint32, footerAt, footerSize int64) []byte {
	at := len(b)
	b = append(b, trailerMagic...)
	b = binary.LittleEndian.AppendUint32(b, uint32(footerAt))
	b = binary.LittleEndian.AppendUint32(b, uint32(footerSize))
	b = binary.LittleEndian.AppendUint32(b, seq)
	b = append(b, make([]byte, 8)...)
	return binary.LittleEndian.AppendUint32(b, checksum(b[at:])^salt)
}

// parseTrailer returns where the footer is; not ok: the segment has none that belongs to it.
func parseTrailer(b []byte, seq, salt uint32) (footerAt, footerSize int64, ok bool) {
	if len(b) != trailerBytes || !bytes.HasPrefix(b, []byte(trailerMagic)) ||
		binary.LittleEndian.Uint32(b[16:]) != seq || binary.LittleEndian.Uint32(b[28:])^salt != checksum(b[:28]) {
		return 0, 0, false
	}
	return int64(binary.LittleEndian.Uint32(b[8:])), int64(binary.LittleEndian.Uint32(b[12:])), true
}

// appendItem appends a record's line of the footer. The records lie one behind the other,
// so sizes give offsets. What is not an entry is there as a whole.
func appendItem(footer []byte, r *record) []byte { return appendLine(footer, r, int64(r.size())) }

// appendLine is appendItem for a record whose bytes may not be at hand.
func appendLine(footer []byte, r *record, size int64) []byte {
	footer = append(footer, byte(r.kind), r.typ)
	footer = binary.AppendUvarint(footer, uint64(r.group))
	footer = binary.AppendUvarint(footer, r.index)
	if r.kind == KindEntry || r.kind == KindRetained {
		return binary.AppendUvarint(footer, uint64(size))
	}
	footer = binary.AppendUvarint(footer, r.term)
	footer = binary.AppendUvarint(footer, uint64(len(r.data)))
	return append(footer, r.data...)
}

// item is a record without an entry's bytes, and its place.
type item struct {
	record
	at   int64
	size int64
}

// parseItems calls visit for every line of a footer. Only entries lack term and data.
func parseItems(footer []byte, visit func(item) error) error {
	return parseLines(footer, headerBytes, visit)
}

// parseLines is parseItems for lines of records that begin at an offset.
func parseLines(lines []byte, at int64, visit func(item) error) error {
	for b := lines; len(b) > 0; {
		if len(b) < 2 {
			return errMalformed
		}
		it := item{record: record{kind: Kind(b[0]), typ: b[1]}, at: at}
		b = b[2:]
		var fields [4]uint64
		want := 3
		if it.kind != KindEntry && it.kind != KindRetained {
			want = 4
		}
		for i := range want {
			v, n := binary.Uvarint(b)
			if n <= 0 {
				return errMalformed
			}
			fields[i], b = v, b[n:]
		}
		it.group, it.index = id.GroupID(fields[0]), fields[1]
		if want == 3 {
			it.size = int64(fields[2])
		} else {
			if fields[3] > uint64(len(b)) {
				return errMalformed
			}
			it.term, it.data = fields[2], b[:fields[3]:fields[3]]
			b = b[fields[3]:]
			it.size = int64(it.record.size())
		}
		if it.size < HeadBytes || it.size > MaxRecordBytes || it.kind < KindEntry || it.kind >= KindFooter {
			return errMalformed
		}
		at += it.size
		if err := visit(it); err != nil {
			return err
		}
	}
	return nil
}

// appendSeal appends footer and trailer of a segment whose records end at end.
func appendSeal(b []byte, seq, salt uint32, end int64, footer []byte) []byte {
	at := len(b)
	r := record{kind: KindFooter, data: footer, synced: uint32(end)}
	b = r.appendTo(b, salt)
	return appendTrailer(b, seq, salt, end, int64(len(b)-at))
}
