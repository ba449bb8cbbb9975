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

// Writer gathers the messages of one queue in blocks. One goroutine uses it.
type Writer struct {
	emit func(block []byte) error

	payload         []byte // of the block that is being filled
	count           uint64 // its messages
	messages, bytes uint64 // of the queue
	block           []byte
}

// NewWriter returns a writer that passes each block to emit, which must not keep it.
func NewWriter(emit func(block []byte) error) *Writer { return &Writer{emit: emit} }

// Head writes the first block.
func (w *Writer) Head(h *Head) error {
	b := putText(putText(nil, h.VHost), h.Queue)
	b = binary.AppendUvarint(b, uint64(h.UID))
	b = binary.AppendUvarint(b, h.Index)
	b = binary.AppendUvarint(b, uint64(h.At))
	b = binary.AppendUvarint(b, h.Messages)
	return w.write(KindHead, binary.AppendUvarint(b, h.Left))
}

// Message adds a message, which the writer does not keep.
func (w *Writer) Message(m *Message) error {
	w.payload = putMessage(w.payload, m)
	w.count++
	w.bytes += uint64(len(m.Stored))
	if len(w.payload) < BlockBytes && w.count < MaxBlockMessages {
		return nil
	}
	return w.flush()
}

// flush writes the messages that have gathered.
func (w *Writer) flush() error {
	if w.count == 0 {
		return nil
	}
	head := binary.AppendUvarint(nil, w.messages+1)
	head = binary.AppendUvarint(head, w.count)
	w.messages += w.count
	w.count = 0
	err := w.write(KindMessages, head, w.payload)
	if cap(w.payload) > 4*BlockBytes {
		w.payload = nil // a single large message
	}
	w.payload = w.payload[:0]
	return err
}

// End writes what is left, and the last block.
func (w *Writer) End() error {
	if err := w.flush(); err != nil {
		return err
	}
	return w.write(KindEnd, binary.AppendUvarint(binary.AppendUvarint(nil, w.messages), w.bytes))
}

// write makes a block of the parts of its payload.
func (w *Writer) write(k Kind, payload ...[]byte) error {
	n := 0
	for _, p := range payload {
		n += len(p)
	}
	b := append(w.block[:0], Version, byte(k), 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	for _, p := range payload {
		b = append(b, p...)
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli()))
	w.block = b
	if cap(b) > 4*BlockBytes {
		w.block = nil
	}
	return w.emit(b)
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
