package grpcmem

import (
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// sharedBytes is how large data must be to be sent without a copy. To copy less costs less than one more piece.
const sharedBytes = 4 << 10

// Shared returns how many bytes of data a Writer does not copy: all, or none if they are few.
func Shared(data []byte) int {
	if len(data) < sharedBytes {
		return 0
	}
	return len(data)
}

// Writer writes a message: all into B, except large data, which comes in between and is not copied. gRPC refers to
// such data until it has written it, so nobody may ever change it. A Writer may be used for many messages, one after
// the other.
type Writer struct {
	B []byte

	pool  *Pool
	lent  *[]byte
	large []large
}

// large is data that belongs at a place of a Writer's bytes.
type large struct {
	at   int
	data []byte
}

// Begin begins a message of so many bytes, what is Shared not counted, in memory of a pool. Finish or Drop must
// follow.
func (w *Writer) Begin(p *Pool, bytes int) {
	w.pool, w.lent = p, p.Get(bytes)
	w.B = (*w.lent)[:0]
}

// Data writes a field of bytes.
func (w *Writer) Data(number protowire.Number, data []byte) {
	w.B = protowire.AppendTag(w.B, number, protowire.BytesType)
	w.B = protowire.AppendVarint(w.B, uint64(len(data)))
	if Shared(data) == 0 {
		w.B = append(w.B, data...)
		return
	}
	w.large = append(w.large, large{len(w.B), data})
}

// Drop ends a message that is not sent.
func (w *Writer) Drop() {
	w.pool.Put(w.lent)
	w.end()
}

// end forgets a message.
func (w *Writer) end() {
	clear(w.large)
	w.B, w.lent, w.large = nil, nil, w.large[:0]
}

// Finish returns the message for gRPC, which takes it over. It fails if it has not as many bytes as were measured, the
// Shared ones included.
func (w *Writer) Finish(measured int) (mem.BufferSlice, error) {
	n := len(w.B)
	for i := range w.large {
		n += len(w.large[i].data)
	}
	if n != measured {
		w.Drop()
		return nil, fmt.Errorf("grpcmem: a message has %d bytes, measured were %d: it was changed meanwhile", n, measured)
	}
	defer w.end()
	*w.lent = w.B
	own := mem.NewBuffer(w.lent, w.pool)
	if len(w.large) == 0 {
		return mem.BufferSlice{own}, nil
	}
	defer own.Free() // its slices hold it
	all, from := make(mem.BufferSlice, 0, 2*len(w.large)+1), 0
	for i := range w.large {
		l := &w.large[i]
		if l.at > from {
			all = append(all, own.Slice(from, l.at))
		}
		all = append(all, mem.SliceBuffer(l.data))
		from = l.at
	}
	if from < len(w.B) {
		all = append(all, own.Slice(from, len(w.B)))
	}
	return all, nil
}
