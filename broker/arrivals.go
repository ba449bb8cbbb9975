package broker

import (
	"github.com/quorate/quorate/cluster/traffic"
)

// arrivals are the deliveries that wait for Take, in their order. What is before at was taken: it is gone with the next
// recycle. bytes are those of the others, as they count in the Buffer.
type arrivals struct {
	all   []traffic.Delivery
	at    int
	bytes int64
}

// waiting returns how many have not been taken.
func (a *arrivals) waiting() int { return len(a.all) - a.at }

// add appends deliveries, of which bytes count.
func (a *arrivals) add(ds []traffic.Delivery, bytes int64) {
	a.all = append(a.all, ds...)
	a.bytes += bytes
}

// take returns those that come next, at most limit and, beyond the first, at most maxBytes of stored messages. They are valid
// until recycle.
func (a *arrivals) take(limit, maxBytes int) []traffic.Delivery {
	n, size := 0, 0
	for at := a.at; at < len(a.all) && n < limit; at++ {
		size += len(a.all[at].Message)
		if n > 0 && size > maxBytes {
			break
		}
		n++
	}
	batch := a.all[a.at : a.at+n]
	a.at += n
	return batch
}

// recycle lets go of what was taken, and keeps the room for what arrives next.
func (a *arrivals) recycle() {
	switch n := len(a.all); {
	case a.at == 0:
	case a.at == n:
		clear(a.all)
		a.all, a.at = a.all[:0], 0
	case a.at > n/2:
		left := copy(a.all, a.all[a.at:])
		clear(a.all[left:])
		a.all, a.at = a.all[:left], 0
	}
}

// sizeOf returns the bytes of deliveries as they count in a Buffer.
func sizeOf(ds []traffic.Delivery) (sum int64) {
	for i := range ds {
		sum += ds[i].Size()
	}
	return sum
}
