package raftfsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/quorate/quorate/id"
)

// The layout of an entry is described in docs/formats/entry.md. All numbers are little
// endian and of fixed width; tables come before what they describe, so that a decoder
// knows every length before it looks at a body.
const (
	entryVersion = 1

	flagLead   = 1 << 0 // first entry of a leader's term
	flagSparse = 1 << 1 // only some bodies of an entry, as a snapshot brings them

	entryHeadBytes  = 36 // fixed part, its checksum included
	commandRowBytes = 12 // header length, number of bodies, checksum
	bodyRowBytes    = 4  // body length
	sparseHeadBytes = 12
	sparseRowBytes  = 12 // slot, body length, checksum
)

// Limits of one entry. MaxCommandBytes is the size of the largest command, header and bodies
// together, that Propose accepts; a command above Config.MaxBatchBytes gets an entry of its own.
const (
	MaxCommandBytes  = 32 << 20
	maxEntryBytes    = 256 << 20 // what a decoder believes
	maxEntryCommands = 1 << 16
)

// errCorrupt is the base of every error of a decoder.
var errCorrupt = errors.New("corrupt")

func corruptf(format string, a ...any) error {
	return fmt.Errorf("%w: %s", errCorrupt, fmt.Sprintf(format, a...))
}

// castagnoli returns the table of CRC32C, for which processors have an instruction.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// groupSum starts a checksum with the group's id, which is not stored: bytes of one
// group never pass for another's.
func groupSum(t *crc32.Table, g id.GroupID) uint32 { return sumNumber(0, t, uint64(g), 8) }

// sumNumber adds the low n bytes of a number, little endian, without the allocation that
// a slice for crc32.Update costs.
func sumNumber(sum uint32, t *crc32.Table, v uint64, n int) uint32 {
	sum = ^sum
	for range n {
		sum = t[byte(sum)^byte(v)] ^ sum>>8
		v >>= 8
	}
	return ^sum
}

// entryHead is what an entry says about all its commands.
type entryHead struct {
	lead  bool
	term  uint64 // the term in which it was proposed; in any other term it is void
	seq   uint64 // number of the entry among the proposer's
	nowMs int64  // the leader's stamp, milliseconds since the Unix epoch
}

// entry is a decoded entry. It refers to the bytes that it was decoded from.
type entry struct {
	entryHead
	data     []byte
	commands int
	bodies   int
	lengths  int // offset of the table of body lengths
	headers  int // offset of the first header
	first    int // offset of the first body
}

// commandBytes returns what a command adds to an entry.
func commandBytes(c Command) int {
	n := commandRowBytes + len(c.Header) + bodyRowBytes*len(c.Bodies)
	for _, b := range c.Bodies {
		n += len(b)
	}
	return n
}

// appendEntry appends an entry of the commands. Their number and sizes are within the
// limits: the proposer sees to it.
func appendEntry(b []byte, g id.GroupID, h entryHead, commands []Command) []byte {
	t := castagnoli()
	start := len(b)
	var flags byte
	if h.lead {
		flags |= flagLead
	}
	b = append(b, entryVersion, flags, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(commands)))
	b = binary.LittleEndian.AppendUint64(b, h.term)
	b = binary.LittleEndian.AppendUint64(b, h.seq)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.nowMs))
	b = binary.LittleEndian.AppendUint32(b, crc32.Update(groupSum(t, g), t, b[start:]))
	for _, c := range commands {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(c.Header)))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(c.Bodies)))
		b = append(b, 0, 0, 0, 0) // the checksum comes last
	}
	e := entry{commands: len(commands), lengths: len(b) - start}
	for _, c := range commands {
		for _, body := range c.Bodies {
			b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
		}
	}
	e.headers = len(b) - start
	for _, c := range commands {
		b = append(b, c.Header...)
	}
	e.first = len(b) - start
	for _, c := range commands {
		for _, body := range c.Bodies {
			b = append(b, body...)
		}
	}
	e.data = b[start:]
	sums := e.sums(g)
	for range commands {
		row, sum := sums.next()
		binary.LittleEndian.PutUint32(row[8:], sum)
	}
	return b
}

// decodeEntry checks and decodes an entry. It allocates nothing but errors.
func decodeEntry(g id.GroupID, data []byte) (entry, error) {
	e, err := decodeEntryHead(g, data)
	if err != nil {
		return e, err
	}
	rows := uint64(len(data)-entryHeadBytes) / commandRowBytes
	if uint64(e.commands) > rows || e.commands > maxEntryCommands {
		return e, corruptf("%d commands do not fit in %d bytes", e.commands, len(data))
	}
	e.lengths = entryHeadBytes + e.commands*commandRowBytes
	var headerBytes, bodies, bodyBytes uint64
	for i := range e.commands {
		row := data[entryHeadBytes+i*commandRowBytes:]
		headerBytes += uint64(binary.LittleEndian.Uint32(row))
		bodies += uint64(binary.LittleEndian.Uint32(row[4:]))
	}
	rest := uint64(len(data) - e.lengths)
	if bodies > rest/bodyRowBytes || headerBytes > rest-bodies*bodyRowBytes {
		return e, corruptf("%d bodies and %d bytes of headers do not fit in %d bytes", bodies, headerBytes, rest)
	}
	e.bodies = int(bodies)
	e.headers = e.lengths + e.bodies*bodyRowBytes
	e.first = e.headers + int(headerBytes)
	for i := range e.bodies {
		bodyBytes += uint64(binary.LittleEndian.Uint32(data[e.lengths+i*bodyRowBytes:]))
	}
	if bodyBytes != uint64(len(data)-e.first) {
		return e, corruptf("bodies have %d bytes instead of %d", len(data)-e.first, bodyBytes)
	}
	return e, e.checkCommands(g)
}

// decodeEntryHead trusts nothing of the head before its checksum is right; the bodies have sums of their
// own.
func decodeEntryHead(g id.GroupID, data []byte) (entry, error) {
	e := entry{data: data}
	if len(data) < entryHeadBytes || len(data) > maxEntryBytes {
		return e, corruptf("entry of %d bytes", len(data))
	}
	t := castagnoli()
	sum := crc32.Update(groupSum(t, g), t, data[:entryHeadBytes-4])
	if want := binary.LittleEndian.Uint32(data[entryHeadBytes-4:]); sum != want {
		return e, corruptf("head has checksum %08x, stored is %08x", sum, want)
	}
	// The head is whole, so that what is not known was not known to this build's makers.
	if data[0] != entryVersion {
		return e, fmt.Errorf("%w: entry version %d, known is %d", ErrUnreadable, data[0], entryVersion)
	}
	if data[1]&^flagLead != 0 || data[2] != 0 || data[3] != 0 {
		return e, fmt.Errorf("%w: unknown flags %#x", ErrUnreadable, data[1:4])
	}
	count := binary.LittleEndian.Uint32(data[4:])
	if count > maxEntryCommands {
		return e, corruptf("%d commands", count)
	}
	e.commands = int(count)
	e.lead = data[1]&flagLead != 0
	e.term = binary.LittleEndian.Uint64(data[8:])
	e.seq = binary.LittleEndian.Uint64(data[16:])
	e.nowMs = int64(binary.LittleEndian.Uint64(data[24:]))
	return e, nil
}

// checkCommands compares the checksum of every command. Lengths were checked before.
func (e *entry) checkCommands(g id.GroupID) error {
	sums := e.sums(g)
	for i := range e.commands {
		row, sum := sums.next()
		if want := binary.LittleEndian.Uint32(row[8:]); sum != want {
			return corruptf("command %d of %d has checksum %08x, stored is %08x", i, e.commands, sum, want)
		}
	}
	return nil
}

// commandSums computes the checksums of an entry's commands one after another: group,
// place in the entry, lengths, header and bodies. The index in the log is no part of
// them, since the leader does not know it.
type commandSums struct {
	e                     *entry
	t                     *crc32.Table
	base                  uint32
	place                 int
	lengths, header, body int // offsets of the next command's parts
}

func (e *entry) sums(g id.GroupID) commandSums {
	t := castagnoli()
	return commandSums{e: e, t: t, base: groupSum(t, g), lengths: e.lengths, header: e.headers, body: e.first}
}

// next returns the next command's row and what its checksum must be.
func (s *commandSums) next() (row []byte, sum uint32) {
	data := s.e.data
	row = data[entryHeadBytes+s.place*commandRowBytes:][:commandRowBytes]
	table := data[s.lengths:][:int(binary.LittleEndian.Uint32(row[4:]))*bodyRowBytes]
	header := data[s.header:][:int(binary.LittleEndian.Uint32(row))]
	bodies := data[s.body:][:sumLengths(table)]
	sum = crc32.Update(sumNumber(s.base, s.t, uint64(s.place), 4), s.t, row[:8])
	sum = crc32.Update(sum, s.t, table)
	sum = crc32.Update(sum, s.t, header)
	sum = crc32.Update(sum, s.t, bodies)
	s.place++
	s.lengths += len(table)
	s.header += len(header)
	s.body += len(bodies)
	return row, sum
}

// sumLengths adds up the bodies of a table whose size was checked.
func sumLengths(table []byte) int {
	n := 0
	for i := 0; i < len(table); i += bodyRowBytes {
		n += int(binary.LittleEndian.Uint32(table[i:]))
	}
	return n
}

// each calls f for every command in order: the slot of its first body, its header and
// how many bodies it has. It stops when f returns false.
func (e *entry) each(f func(place int, firstSlot uint32, header []byte, bodies int) bool) {
	header := e.headers
	var slot uint32
	for i := range e.commands {
		row := e.data[entryHeadBytes+i*commandRowBytes:]
		headerLen := int(binary.LittleEndian.Uint32(row))
		bodies := binary.LittleEndian.Uint32(row[4:])
		end := header + headerLen
		if !f(i, slot, e.data[header:end:end], int(bodies)) {
			return
		}
		header = end
		slot += bodies
	}
}
