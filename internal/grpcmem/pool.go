// Package grpcmem has the memory in which gRPC's messages are written and read: a pool of buffers, and
// protobuf's codec on it.
//
// A message's buffer belongs to gRPC, or to a decoder, until it frees it; what is kept of a message must be
// copied before. The pool never clears what it lends: the borrower of a buffer overwrites all that it passes on.
package grpcmem

import (
	"math/bits"
	"sync"

	"google.golang.org/grpc/mem"
)

// Sizes of pooled buffers: powers of two in bytes. Larger ones are left to the collector. gRPC does not give
// buffers back that have at most 1 KiB, so there are no smaller ones than 2 KiB.
const (
	minPoolBits = 11 // 2 KiB
	maxPoolBits = 23 // 8 MiB
)

// Pool lends buffers. gRPC's own pool clears each buffer before it lends it, and has no size between 32 KiB and
// 1 MiB, so that a message of 33 KiB has 1 MiB cleared. The zero value is empty. All methods may be called
// concurrently.
type Pool struct {
	sizes [maxPoolBits - minPoolBits + 1]sync.Pool
}

var _ mem.BufferPool = (*Pool)(nil)

// Get implements mem.BufferPool. What is in the buffer is left from its last use.
func (p *Pool) Get(length int) *[]byte {
	class := poolClass(length)
	if class >= len(p.sizes) {
		b := make([]byte, length)
		return &b
	}
	if b, ok := p.sizes[class].Get().(*[]byte); ok {
		*b = (*b)[:length]
		return b
	}
	b := make([]byte, length, 1<<(class+minPoolBits))
	return &b
}

// Put implements mem.BufferPool. A buffer of another size than those that Get lends is
// dropped.
func (p *Pool) Put(b *[]byte) {
	class := poolClass(cap(*b))
	if class < len(p.sizes) && cap(*b) == 1<<(class+minPoolBits) {
		p.sizes[class].Put(b)
	}
}

// poolClass returns which size holds the length.
func poolClass(length int) int {
	return max(bits.Len(uint(max(length, 1)-1))-minPoolBits, 0)
}
