package backup

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/quorate/quorate/quorumq"
)

// A block is a head of headBytes, its payload, and the checksum of both.
const (
	headBytes = 8
	sumBytes  = 4
)

// castagnoli returns the table of the checksums.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// Flags of a message.
const (
	flagTTL         = 1 << iota // a TTL follows
	flagPriority                // a priority other than the default follows
	flagDue                     // a time follows
	flagCounts                  // the delivery count and the acquired count follow
	flagReason                  // a reason follows
	flagDestination             // a destination follows
	messageFlags    = flagTTL | flagPriority | flagDue | flagCounts | flagReason | flagDestination
)

// headRoom is what stands before the messages of a block at most: its head, the number of the first one, and how many
// they are.
const headRoom = headBytes + 2*binary.MaxVarintLen64

// factsBytes is about as much as a message has besides Stored.
const factsBytes = 1 << 10

// spareBytes is what memory for a block has more than the block needs: what stands before the messages may begin a few
// bytes later each time that it is used again.
const spareBytes = 4 << 10

// Emit takes a block, which it may keep. It returns memory for a later one, such as that of a block which nobody
// needs any longer, or nil: a queue has many blocks, and new memory for each would make Go collect garbage again and
// again.
type Emit func(block []byte) (spare []byte, err error)

// Writer gathers the messages of one queue in blocks. One goroutine uses it.
type Writer struct {
	emit  Emit
	spare []byte

	block           []byte // that is being filled: headRoom bytes for what comes last, and its messages
	count           uint64 // its messages
	messages, bytes uint64 // of the queue
	largest         int    // message of the block
	next            int    // memory for the next block
}

// NewWriter returns a writer that passes each block to emit.
func NewWriter(emit Emit) *Writer { return &Writer{emit: emit} }

// Head writes the first block.
func (w *Writer) Head(h *Head) error {
	b := putText(putText(make([]byte, headBytes), h.VHost), h.Queue)
	b = binary.AppendUvarint(b, uint64(h.UID))
	b = binary.AppendUvarint(b, h.Index)
	b = binary.AppendUvarint(b, uint64(h.At))
	b = binary.AppendUvarint(b, h.Messages)
	return w.pass(KindHead, binary.AppendUvarint(b, h.Left))
}

// Message adds a message, which the writer does not keep.
func (w *Writer) Message(m *Message) error {
	w.largest = max(w.largest, len(m.Stored))
	if w.block == nil {
		w.block = w.memory(max(headRoom, w.next))
	}
	w.block = putMessage(w.block, m)
	w.count++
	w.bytes += uint64(len(m.Stored))
	if len(w.block)-headRoom < BlockBytes && w.count < MaxBlockMessages {
		return nil
	}
	return w.flush()
}

// flush writes the messages that have gathered. Their head is put right in front of them.
func (w *Writer) flush() error {
	if w.count == 0 {
		return nil
	}
	var numbers [2 * binary.MaxVarintLen64]byte
	n := binary.PutUvarint(numbers[:], w.messages+1)
	n += binary.PutUvarint(numbers[n:], w.count)
	b := w.block[headRoom-headBytes-n:]
	copy(b[headBytes:], numbers[:n])
	w.messages += w.count
	// The next block should not have to grow if its messages are like these. The first one does: most queues do not
	// fill it.
	w.next = headRoom + BlockBytes + min(w.largest, BlockBytes) + factsBytes
	w.block, w.count, w.largest = nil, 0, 0
	return w.pass(KindMessages, b)
}

// End writes what is left, and the last block.
func (w *Writer) End() error {
	if err := w.flush(); err != nil {
		return err
	}
	b := binary.AppendUvarint(make([]byte, headBytes), w.messages)
	return w.pass(KindEnd, binary.AppendUvarint(b, w.bytes))
}

// pass completes a block that has room for its head, and its payload, and passes it on.
func (w *Writer) pass(k Kind, b []byte) error {
	copy(b, []byte{Version, byte(k), 0, 0})
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-headBytes))
	spare, err := w.emit(binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli())))
	w.spare = spare
	return err
}

// memory returns memory for a block of at least some bytes.
func (w *Writer) memory(bytes int) []byte {
	b := w.spare
	w.spare = nil
	if cap(b) >= bytes && cap(b) < 4*BlockBytes {
		return b[:headRoom]
	}
	if bytes > headRoom {
		bytes += spareBytes
	}
	return make([]byte, headRoom, bytes)
}

// putMessage appends a message.
func putMessage(b []byte, m *Message) []byte {
	flags := byte(0)
	if m.TTLMs >= 0 {
		flags |= flagTTL
	}
	if m.Priority != quorumq.DefaultPriority {
		flags |= flagPriority
	}
	if m.Due > 0 {
		flags |= flagDue
	}
	p := &m.Past
	if p.DeliveryCount > 0 || p.AcquiredCount > 0 {
		flags |= flagCounts
	}
	if p.Reason > 0 {
		flags |= flagReason
	}
	if p.To != nil {
		flags |= flagDestination
	}
	b = binary.AppendUvarint(append(b, flags), uint64(p.At))
	if m.TTLMs >= 0 {
		b = binary.AppendUvarint(b, uint64(m.TTLMs))
	}
	if flags&flagPriority != 0 {
		b = append(b, m.Priority)
	}
	if m.Due > 0 {
		b = binary.AppendUvarint(b, uint64(m.Due))
	}
	if flags&flagCounts != 0 {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(p.DeliveryCount)), uint64(p.AcquiredCount))
	}
	if p.Reason > 0 {
		b = append(b, byte(p.Reason))
	}
	if p.To != nil {
		b = putDestination(b, p.To)
	}
	b = binary.AppendUvarint(b, uint64(len(m.Stored)))
	return append(b, m.Stored...)
}

// putDestination appends a destination; one without a key is different from one with an empty key.
func putDestination(b []byte, d *quorumq.Destination) []byte {
	b = putText(append(b, byte(d.Kind)), d.Name)
	if !d.HasKey {
		return append(b, 0)
	}
	return putText(append(b, 1), d.Key)
}

func putText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
